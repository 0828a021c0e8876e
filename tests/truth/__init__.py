"""Scripts that run the real thing in a fresh process and report what it cost, and how tests call them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rlmem.frameworks import predict, resolve
from rlmem.ledger import Ledger
from rlmem.model.constants import Constants
from rlmem.spec import RunSpec

HERE = Path(__file__).parent
#: Blocks of 128 KiB and more are mapped, so that they are returned when freed: exact arithmetic can be checked to the
#: percent, and glibc's own habits are tested apart.
PINNED = {"MALLOC_MMAP_THRESHOLD_": "131072"}


def run_truth(
    script: str, case: dict[str, Any], *, env: dict[str, str] | None = None, timeout: int = 300
) -> dict[str, Any]:
    """One case in a fresh process."""
    done = subprocess.run(
        [sys.executable, str(HERE / script)],
        input=json.dumps(case),
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "OMP_NUM_THREADS": "2", **(env or {})},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def sb3_case(spec: RunSpec) -> dict[str, Any]:
    """The same run for ``sb3_run.py``."""
    plain = spec.to_dict()
    known = ("n_steps", "batch_size", "n_epochs", "buffer_size", "gradient_steps", "optimize_memory_usage")
    kwargs = {name: plain[name] for name in known if name in plain}
    if plain["algorithm"] == "a2c":
        kwargs.pop("batch_size", None)
    if "buffer_size" in kwargs:
        kwargs["learning_starts"] = 10
    if kwargs.get("optimize_memory_usage"):
        kwargs["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    network = plain.get("network", {})
    policy = {
        k: network[k] for k in ("net_arch", "share_features_extractor", "n_critics", "n_quantiles") if k in network
    }
    if "lstm_hidden" in network:
        policy["lstm_hidden_size"] = network["lstm_hidden"]
    if policy:
        kwargs["policy_kwargs"] = policy
    # SB3 users choose to flatten an image by naming the MLP policy.
    flat = {"policy": "MlpPolicy"} if network.get("extractor") == "flatten" else {}
    return flat | {
        "algorithm": plain["algorithm"],
        "observation": plain["observation"],
        "action": plain["action"],
        "frame_stack": plain.get("frame_stack", 1),
        "n_envs": plain.get("n_envs", 1),
        "vec_env": plain.get("vec_env", "dummy"),
        "her": plain.get("replay", {}).get("kind") == "her",
        "fill_replay": True,
        "checkpoint": False,
        "collect_steps": 16,
        # CrossQ and TD3 update their actor only every few steps, and the heap grows over the first dozens.
        "updates": 2 if "n_steps" in kwargs else 6 if "uint8" in str(plain["observation"]) else 32,
        "model_kwargs": kwargs,
    }


def predicted(spec: RunSpec) -> Ledger:
    """The closed form with the shipped constants."""
    return predict(resolve(spec), Constants())
