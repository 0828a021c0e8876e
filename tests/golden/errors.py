"""What rlmem says to bad input, with exit codes: a file for each place where input is read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from golden.described import PYTHON, RLLIB, RUNS
from golden.harness import Case, session_case

_ACTION = "action: {type: discrete, n: 4}\n"
_RUN = f"framework: {{name: sb3}}\nalgorithm: ppo\nobservation: {{type: box, shape: [8]}}\n{_ACTION}"
_LIMITS = ["--ram", "30GB", "--vram", "16GB"]


def _with(*lines: str) -> str:
    """The run of most cases with more lines."""
    return _RUN + "".join(f"{line}\n" for line in lines)


def _observing(space: str) -> str:
    return f"framework: {{name: sb3}}\nalgorithm: ppo\nobservation: {space}\n{_ACTION}"


#: Texts that are no run files, by what is wrong with them.
_FILES: Mapping[str, str | bytes] = {
    "empty": "",
    "only-comments": "# nothing\n---\n",
    "list": "- ppo\n- sac\n",
    "text": "just words\n",
    "syntax": "name: [a\nalgorithm: ppo\n",
    "tab": "name: a\n\talgorithm: ppo\n",
    "twice": _with("n_envs: 4", "n_envs: 8"),
    "tag": "name: !!python/object/apply:os.system [ls]\n",
    "latin": "name: caf\xe9\n".encode("latin-1"),
    "large": "# " + "x" * (1 << 20) + "\n",
    "deep": "settings: " + "{a: " * 45 + "1" + "}" * 45 + "\n",
    "bomb": "settings:\n  a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    + "".join(f"  {b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcde", "bcdef", strict=True)),
    "number": _with(f"n_envs: {'9' * 200}"),
    "schema": "schema: rlmem.run/2\nname: new\n",
    "unknown": _with("n_env: 4"),
    "unknown-inside": _with("network: {net_arc: [64]}"),
    "unknown-far": _with("zebra: 4"),
    "section": _with("network: [64, 64]"),
    "extends-number": "extends: 3\n",
    "extends-unknown": "extends: pidog-sak\nn_envs: 2\n",
    "count-text": _with("n_envs: many"),
    "count-zero": _with("n_envs: 0"),
    "count-half": _with("n_envs: 2.5"),
    "count-suffix": _with("n_envs: 4q"),
    "count-absurd": _with("n_envs: 1e20"),
    "count-flag": _with("n_envs: true"),
    "size": _with("env: {bytes: heavy}"),
    "size-unit": _with("env: {bytes: 4 potatoes}"),
    "size-absurd": _with("env: {bytes: 8 EB}"),
    "flag": _with("vec_normalize: maybe"),
    "choice": _with("vec_env: subprog"),
    "list-of-names": _with("env: {imports: {mujoco: 3}}"),
    "widths": _with("network: {net_arch: 3.5}"),
    "head": _with("network: {net_arch: {pi: [64], qv: [64]}}"),
    "modules": _with("network: {modules: [64]}"),
    "layer": _with("network: {extractor: [linear 64, rlu]}"),
    "layer-width": _with("network: {extractor: [linear]}"),
    "layer-option": _with("network: {extractor: [linear 64 k3]}"),
    "layer-kernel": _with("network: {extractor: [conv2d 8 k0]}"),
    "layer-shape": _with("network: {extractor: [conv2d 8 k3]}"),
    "layer-number": _with("network: {extractor: [64]}"),
    "extractor": _with("network: {extractor: natur}"),
    "extractor-vector": _with("network: {extractor: nature}"),
    "arrays": _with("env: {state: [1, 2]}"),
    "array-shape": _with("env: {state: {a: {shape: [nowhere]}}}"),
    "array-dtype": _with("env: {state: {a: {shape: [3], dtype: float3}}}"),
    "array-like": _with("env: {state: {a: {like: action}}}"),
    "array-field": _with("env: {state: {a: {shapes: [3]}}}"),
    "counts": _with("stacked: 4"),
    "ranges": _with("coded_bytes: {observation: [3, 2, 1]}"),
    "settings": _with("settings: 4"),
    "space-text": _observing("box"),
    "space-type": _observing("{type: bax, shape: [8]}"),
    "space-field": _observing("{type: box, shap: [8]}"),
    "space-no-shape": _observing("{type: box}"),
    "space-side": _observing("{type: box, shape: [8, -1]}"),
    "space-text-side": _observing("{type: box, shape: [8, x]}"),
    "space-dtype": _observing("{type: box, shape: [8], dtype: float33}"),
    "space-bound": _observing("{type: box, shape: [8], low: small}"),
    "space-dict": _observing("{type: dict, spaces: [1]}"),
    "space-tuple": _observing("{type: tuple, spaces: []}"),
    "space-inside": _observing("{type: dict, spaces: {a: {type: discrete}}}"),
    "space-nvec": _observing("{type: multidiscrete, nvec: 3}"),
    "framework": _RUN.replace("sb3", "sb4"),
    "algorithm": _RUN.replace("ppo", "pppo"),
    "no-algorithm": _RUN.replace("algorithm: ppo\n", ""),
    "no-framework": _RUN.replace("framework: {name: sb3}\n", ""),
    "no-observation": f"framework: {{name: sb3}}\nalgorithm: ppo\n{_ACTION}",
    "no-history": _observing("{type: window, sample: 6}"),
    "version": _RUN.replace("{name: sb3}", "{name: sb3, version: newest}"),
    "agents": _with("agents: 4"),
    "action": _RUN.replace("ppo", "dqn").replace("{type: discrete, n: 4}", "{type: box, shape: [3]}"),
    "stream": _with("storage: stream"),
    "elegantrl-agents": _with("agents: 4").replace("sb3", "elegantrl"),
    "swarm-box": _RUN.replace("sb3", "swarm"),
    "cleanrl-module": _with("network: {modules: {critic: [linear 1]}}").replace("sb3", "cleanrl"),
    "rllib-agents": json.dumps({**RLLIB["ppo_cartpole"], "agents": 4}),
}

_TARGETS = (
    ["plan", ""],
    ["plan", "pidog-sak"],
    ["plan", "nothing-like-it"],
    ["plan", "nowhere.yaml"],
    ["plan", "nowhere.py"],
    ["plan", "folder.py"],
    ["plan", "folder"],
    ["plan", "folder.yaml"],
    ["plan", "zoo:sac"],
    ["plan", "rllib:nowhere.py:config"],
    ["plan", "pidog-sac", "--", "--env", "Hopper-v5"],
    ["plan", "pidog-sac", "--timeout", "30"],
    ["plan", "pidog-sac", "--cap", "4GB"],
    ["capacity", "pidog-sac", "extra", "--vary", "n_envs"],
    ["assess", "nowhere.json"],
    ["assess", "abcd1234"],
    ["assess", "abcd1234", "--ram", "30GB"],
    ["compare", "pidog-sac", "abcd1234"],
    ["compare", "abcd1234", "abcd1234", "--set", "n_envs=4"],
    ["compare", "pidog-sac", "pidog-td3", "--", "--seed", "1"],
    ["fit", "pidog-sac", "--", "--seed", "1"],
    ["fit", "pidog-sac", "--timeout", "30"],
    ["fit", "pidog-sac", "--cap", "8GB"],
    ["fit", "pidog-sac", "--apply"],
    ["fit", "run.yaml", "--ram", "30GB", "--apply"],
    ["measure", "pidog-sac", "--", "--seed", "1"],
    ["measure", "rllib:nowhere.py:config", "--", "1"],
)

_LIMIT_OPTIONS = (
    ["plan", "pidog-sac", "--ram", "30"],
    ["plan", "pidog-sac", "--ram", "much"],
    ["plan", "pidog-sac", "--ram", "30QB"],
    ["plan", "pidog-sac", "--ram", "1,5GB"],
    ["plan", "pidog-sac", "--ram", "-4GB"],
    ["plan", "pidog-sac", "--ram", "4000000TB"],
    ["plan", "pidog-sac", "--ram", "0.5"],
    ["plan", "pidog-sac", "--ram", "500kB"],
    ["plan", "pidog-sac", "--ram", ""],
    ["plan", "pidog-sac", "--vram", "24"],
    ["plan", "pidog-sac", "--vram", "x" * 90],
    ["plan", "pidog-sac", "--machine", "rtx-4091"],
    ["plan", "pidog-sac", "--machine", "abacus"],
    ["plan", "pidog-sac", "--python", "no-such-python"],
    ["plan", "pidog-sac", "--python", "./old-python"],
    ["machines", "rtx4090"],
    ["machines", "abacus"],
    ["machines", "rtx-4090", "--here"],
    ["capacity", "pidog-sac", "--vary", "n_envs", "--machines", "16"],
    ["capacity", "pidog-sac", "--vary", "n_envs", "--machines", "rtx-4091"],
    ["capacity", "pidog-sac", "--vary", "n_envs", "--machines", ","],
    ["capacity", "pidog-sac", "--vary", "n_envs", "--machines", "16GB", "--ram", "8GB"],
    ["workers", "pidog-sac", "--machine", "rtx-4090"],
    ["max-buffer", "Pendulum-v1", "--algo", "sac", "--ram", "16"],
    ["max-buffer", "Pendulum-v1", "--algo", "sac", "--margin", "120%"],
    ["max-buffer", "Pendulum-v1", "--algo", "sac", "--margin", "some"],
    ["max-buffer", "Pendulum-v1", "--algo", "sac", "--n-envs", "0"],
    ["max-buffer", "Pendulum-v1"],
    ["max-buffer", "train.py", "--algo", "sac"],
    ["max-buffer", "Pendulum-v1", "--algo", "sac", "--python", "no-such-python"],
    ["max-buffer", "Pendulum-v1", "--algo", "sac", "--python", "./python", "--set", "n_env=2"],
)

_SETS = (
    *(
        ["plan", "pidog-sac", *_LIMITS, "--set", text]
        for text in (
            "n_envs",
            "n_envs=",
            "=4",
            "n_env=4",
            "version=2.3",
            "network=4",
            "zebra=1",
            "n_envs=many",
            "n_envs=0",
            "vec_env=subprog",
            "device=gpu",
            "optimize_memory_usage=maybe",
            "env.bytes=heavy",
            'observation={"type":"box"',
            'observation={"type":"bax","shape":[3]}',
            "observation=" + "[" * 3000,
            "network.net_arch=64,x",
            "algorithm=pppo",
            "algorithm=none",
            "framework.version=newest",
            "storage=frames",
            "agents=4",
        )
    ),
    ["capacity", "pidog-sac", "--vary", "n_env"],
    ["capacity", "pidog-sac", "--vary", "device"],
    ["capacity", "pidog-sac", "--vary", "n_envs="],
    ["capacity", "pidog-sac", "--vary", "n_envs=1,x"],
    ["capacity", "pidog-sac", "--vary", "n_envs=0"],
    ["capacity", "pidog-sac"],
    ["compare", "pidog-sac", "pidog-sac", "--set-left", "n_env=1"],
    ["fit", "pidog-sac", "--keep", "buffer_sizes"],
    ["fit", "pidog-sac", "--max-slowdown", "0.5"],
    ["plan", "train.py", "--set", "framework.version=2.3"],
    ["measure", "pidog-sac", "--vary", "n_envs"],
    ["measure", "pidog-sac", "--vary", "n_envs=1..8"],
    ["measure", "pidog-sac", "--vary", "n_envs=1,1"],
    ["measure", "pidog-sac", "--vary", "n_envs=1,x"],
    ["measure", "pidog-sac", "--vary", "n_envs=1,,2"],
    ["measure", "pidog-sac", "--vary", "n_envs=1", "--vary", "n_envs=2"],
    ["measure", "pidog-sac", "--vary", "n_envs=1..100000/5000", "--vary", "batch_size=1..100000/5000"],
)

_NODES = (
    *(
        ["plan", "crypto-ppo", "--nodes", text]
        for text in (
            "",
            "4x",
            "64",
            "4x64",
            "0x64GB",
            "2000000x64GB",
            "900000x64GB+900000x64GB",
            "4x(64GB",
            "4x64GB)",
            "4x(64GB,16cpu,8cpu)",
            "4x(64GB,32GB)",
            "4x(64GB,1xt4,1xl4)",
            "4x(16cpu)",
            "4x(64GB,,16cpu)",
            "4x(64GB,9000cpu)",
            "4x(64GB,90xt4)",
            "4x(64GB,1xa100)",
            "4x(64GB,1xrtx-4091)",
            "4x64GB,16cpu",
            "4xrtx-4090",
            "2x(2xaws-g5-xlarge)",
            "4xabacus",
            "4x100kB",
            "4x(64GB,1x1kB-gpu)",
            "64GB+",
        )
    ),
    ["plan", "crypto-ppo", "--nodes", "64GB", "--ram", "30GB"],
    ["plan", "crypto-ppo", "--nodes", "64GB", "--margin", "100%"],
    ["plan", "crypto-ppo", "--nodes", "64GB", "--margin", "ten"],
    ["plan", "crypto-ppo", "--nodes", "64GB", "--margin", "-1%"],
    ["workers", "crypto-ppo", "--ray", "--nodes", "64GB"],
    ["workers", "crypto-ppo", "--address", "10.0.0.1:6379"],
    ["workers", "crypto-ppo", "--nodes", "64GB", "--shard", "device"],
    ["workers", "crypto-ppo", "--nodes", "64GB", "--shard", "n_env"],
    ["workers", "rllib.json", "--nodes", "64GB", "--shard", "n_envs"],
    ["workers", "rllib.json", "--nodes", "64GB", "--set", "rllib.runner_resources=sim"],
    ["workers", "rllib.json", "--nodes", "64GB", "--set", "rllib.runner_resources=CPU=1"],
)

_OPTIONS = (
    ["plam", "pidog-sac"],
    ["zebra"],
    ["--colour"],
    ["plan"],
    ["plan", "pidog-sac", "--rams", "4GB"],
    ["plan", "train.py", "--env", "Hopper-v5"],
    ["plan", "pidog-sac", "--format", "yaml"],
    ["plan", "pidog-sac", "--json", "--format", "text"],
    ["plan", "pidog-sac", "--timeout", "1"],
    ["plan", "pidog-sac", *_LIMITS, "--why", "replay.observation"],
    ["plan", "pidog-sac", *_LIMITS, "--why", "zebra"],
    ["plan", "pidog-sac", "--html", "-"],
    ["plan", "pidog-sac", "--html", "nowhere/page.html"],
    ["plan", "run.yaml", "--html", "run.yaml"],
    ["plan", "pidog-sac", "--redact"],
    ["plan", "pidog-sac", *_LIMITS, "-o", "nowhere/plan.json"],
    ["plan", "pidog-sac", *_LIMITS, "-o", "folder"],
    ["plan", "drone-swarm", "--stacks", "--html", "page.html"],
    ["plan", "drone-swarm", "--stacks", "--why", "rollout"],
    ["plan", "train.py", "--stacks"],
    ["compare", "pidog-sac"],
    ["schema", "plans"],
    ["presets", "--show", "pidog"],
    ["presets", "--show", "pidog-sak"],
    ["rule", "MEM999"],
    ["rule", "duplicate-next-ops"],
    ["rule", "--pages"],
    ["rule", "--pages", "-o", "nowhere/rules.md"],
    ["five-runs", "-o", "nowhere/page.md"],
    ["calibrate", "--python", "no-such-python"],
    ["calibrate", "--python", "./old-python"],
    ["runs", "--kind", "plans"],
    ["runs", "--limit", "0"],
    ["runs", "--delete", "abcd1234"],
    ["runs", "--delete", "xyz"],
    ["bench", "pidog-sac", "--timesteps", "0"],
    ["bench", "pidog-sac"],
    ["bench", "pidog-sac", "--timesteps", "5k", "--profiles", "fastest"],
    ["bench", "pidog-sac", "--timesteps", "5k", "--profiles", ","],
    ["measure", "pidog-sac", "--address", "10.0.0.1:6379"],
    ["explain"],
    ["explain", "1", "--ray"],
    ["explain", "--name", "no process is called like this"],
    ["watch"],
    ["watch", "abc"],
    ["watch", "1", "--plain", "--json"],
    ["watch", "--name", "no process is called like this"],
    ["run"],
    ["run", "--max-rams", "4GB", "--", "true"],
    ["run", "--json", "--", "true"],
    ["run", "--warn-at", "90", "--act-at", "50", "--", "true"],
    ["serve", "--python", "no-such-python"],
)

_PLAN = json.dumps({"schema": "rlmem.plan/1"})
_SHOWN = {
    "words.json": "not json",
    "empty.json": "",
    "list.json": "[1, 2]",
    "text.json": '"plan"',
    "no-schema.json": '{"plan": 1}',
    "other.json": '{"schema": "rlmem.plan/9"}',
    "strange.json": '{"schema": 4}',
    "short.json": _PLAN,
    "latin.json": "caf\xe9".encode("latin-1"),
    "deep.json": "[" * 100000,
    **{
        f"{kind}.json": json.dumps({"schema": f"rlmem.{kind}/1"})
        for kind in ("sweep", "bench", "report", "recorded", "placement", "cluster")
    },
}
_SHOW = (
    ["show"],
    ["show", "nowhere.json"],
    ["show", "folder"],
    ["show", "abcd1234"],
    ["show", "abc"],
    *(["show", name] for name in _SHOWN),
    ["plan", "pidog-sac", *_LIMITS, "-o", "plan.json"],
    ["show", "plan.json", "--csv", "points.csv"],
    ["show", "plan.json", "-o", "points.parquet"],
)

_PROFILES = {
    "list.yaml": "- a\n",
    "settings.yaml": "small: 4\n",
    "field.yaml": "small: {buffer_sizes: 4}\n",
    "near.yaml": "small: {learning_rates: 4}\n",
    "rate.yaml": "small: {learning_rate: fast}\n",
    "value.yaml": "small: {buffer_size: many}\n",
}

_SCRIPT = "import gymnasium as gym\n"
_COMMON: Mapping[str, str | bytes] = {
    **PYTHON,
    "old-python": "#!/bin/sh\necho 3.6\n",
    "train.py": _SCRIPT,
    "run.yaml": RUNS["sb3-ppo-frames"],
    "rllib.json": json.dumps(RLLIB["ppo_cartpole"]),
    "folder/inner.txt": "",
    "folder.py/inner.txt": "",
    "folder.yaml/inner.txt": "",
}


def _table(name: str, commands: tuple[list[str], ...], files: Mapping[str, str | bytes] = _COMMON) -> Case:
    return session_case(f"errors/{name}.txt", commands, files)


CASES: tuple[Case, ...] = (
    _table(
        "run-files",
        tuple(["plan", f"{name}.yaml", *_LIMITS] for name in _FILES),
        {f"{name}.yaml": text for name, text in _FILES.items()},
    ),
    _table("targets", _TARGETS),
    _table("limits", _LIMIT_OPTIONS),
    _table("fields", _SETS),
    _table("nodes", _NODES),
    _table("options", _OPTIONS),
    _table("saved-documents", _SHOW, {**_COMMON, **_SHOWN}),
    _table(
        "profiles",
        tuple(["bench", "pidog-sac", "--timesteps", "5k", "--profiles", name] for name in _PROFILES),
        _PROFILES,
    ),
)
