"""What a plan says about compact buffers against buffers filled in fresh processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")
pytest.importorskip("numba", reason="the 'buffers' extra is not installed; 'make test' installs it")

from rlmem.core.spec import RunSpec
from rlmem.units import MIB
from truth import predicted

pytestmark = pytest.mark.truth
PROGRAM = Path(__file__).parents[1] / "truth" / "compact_run.py"

IMAGE = {"type": "box", "shape": [3, 84, 84], "dtype": "uint8"}
VECTOR = {"type": "box", "shape": [31], "dtype": "float32"}
WIDE = {"type": "box", "shape": [376], "dtype": "float64"}
MIXED = {"type": "dict", "spaces": {"image": IMAGE, "vector": VECTOR}}
GRAY = {"type": "box", "shape": [1, 84, 84], "dtype": "uint8"}
CONTINUOUS, BUTTONS = {"type": "box", "shape": [8]}, {"type": "discrete", "n": 6}
SAC, DQN = {"algorithm": "sac", "action": CONTINUOUS}, {"algorithm": "dqn", "action": BUTTONS}
CASES: dict[str, dict[str, Any]] = {
    "a vector": {**SAC, "observation": VECTOR, "buffer_size": 60_000},
    "a wide vector in 4 envs": {**SAC, "observation": WIDE, "buffer_size": 20_000, "n_envs": 4},
    "an image": {**DQN, "observation": IMAGE, "buffer_size": 6_000},
    "a Dict in 4 envs": {**SAC, "observation": MIXED, "buffer_size": 8_000, "n_envs": 4},
    "a stack": {**DQN, "observation": GRAY, "buffer_size": 12_000, "frame_stack": 4},
    "a stack in 3 envs": {**DQN, "observation": GRAY, "buffer_size": 12_001, "frame_stack": 4, "n_envs": 3},
    "short episodes": {**DQN, "observation": GRAY, "buffer_size": 8_000, "episode_length": 25},
    "a rollout": {"algorithm": "ppo", "action": CONTINUOUS, "observation": VECTOR, "n_steps": 8192, "n_envs": 4},
    "a rollout of stacks": {"algorithm": "ppo", "action": BUTTONS, "observation": IMAGE, "frame_stack": 4, "n_envs": 2,
                            "n_steps": 1024},
}  # fmt: skip

#: Told apart by ``make long``; the others are of the same kinds.
LONG = ("a wide vector in 4 envs", "an image", "a stack in 3 envs", "short episodes", "a rollout of stacks")


def filled(spec: RunSpec) -> dict[str, Any]:
    """The same buffer, filled past its end in a process of its own."""
    leaf_stack = spec.get("frame_stack", 1)
    observation = spec.to_dict()["observation"]
    if leaf_stack > 1:
        observation = {**observation, "shape": [observation["shape"][0] * leaf_stack, *observation["shape"][1:]]}
    size = {name: spec.get(name) for name in ("buffer_size", "n_steps") if name in spec}
    case = {
        "observation": observation, "action": spec.to_dict()["action"], "n_envs": spec.get("n_envs", 1),
        "episode": spec.get("episode_length", 200), "stacks": {"": leaf_stack}, **size,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], input=json.dumps(case), capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in CASES])
def test_a_compact_buffer_takes_what_is_predicted(name: str) -> None:
    spec = RunSpec().having({"framework.name": "sb3", "storage": "compact", **CASES[name]}, "test")
    group = "rollout" if "n_steps" in spec else "replay"
    stored = [e for e in predicted(spec).only(phase="collect", component=group).entries if "batches" not in e.component]
    expected = sum(entry.nbytes for entry in stored)
    truth = filled(spec)
    assert expected == pytest.approx(truth["nbytes"], rel=0.02)
    assert sum(e.amount.low for e in stored) <= truth["nbytes"] <= sum(e.amount.high for e in stored)
    # The buffer's own figure is the truth: that much is resident, and little more (what looking at the data left behind).
    assert 0.99 * truth["nbytes"] <= truth["rss"] <= truth["nbytes"] + 48 * MIB
