"""Stable-Baselines3's (and sb3-contrib's) defaults, read from the sources of 2.9.2, and how versions differ."""

from __future__ import annotations

import re
from typing import Any

from rlmem.core.spaces import DictSpace, Leaf, TupleSpace
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError

#: The version a description without one is planned for.
LATEST = "2.9.2"
#: Rollout buffers store observations and actions in the space's dtype from this version on, float32 before
#: (read in buffers.py of 2.7.0 and 2.7.1).
ROLLOUT_DTYPE_SINCE = (2, 7, 1)
#: NStepReplayBuffer exists from this version on.
N_STEP_SINCE = (2, 7, 0)

#: pandas and matplotlib are imported with SB3 before this version, and are optional from it on.
LIGHT_IMPORTS_SINCE = (2, 9, 0)

_OFF = {"buffer_size": 1_000_000, "batch_size": 256, "gradient_steps": 1, "optimizer": "adam"}
_DQN = {**_OFF, "batch_size": 32, "network.n_critics": 1}
_PPO = {"n_steps": 2048, "batch_size": 64, "n_epochs": 10, "optimizer": "adam"}
ALGORITHMS: dict[str, dict[str, Any]] = {
    "ppo": _PPO,
    "maskable_ppo": _PPO,
    "recurrent_ppo": {
        **_PPO,
        "n_steps": 128,
        "batch_size": 128,
        "network.lstm_hidden": 256,
        "network.lstm_layers": 1,
        "network.critic_lstm": True,
    },
    "trpo": {**_PPO, "batch_size": 128, "n_epochs": 10},
    "a2c": {"n_steps": 5, "n_epochs": 1, "optimizer": "rmsprop"},
    "dqn": _DQN,
    "qrdqn": {**_DQN, "network.n_quantiles": 200},
    "sac": {**_OFF, "network.n_critics": 2},
    "tqc": {**_OFF, "network.n_critics": 2, "network.n_quantiles": 25},
    "crossq": {**_OFF, "network.n_critics": 2},
    "td3": {**_OFF, "network.n_critics": 2},
    "ddpg": {**_OFF, "network.n_critics": 1},
}
ON_POLICY = ("ppo", "maskable_ppo", "recurrent_ppo", "trpo", "a2c")
CONTRIB = ("maskable_ppo", "recurrent_ppo", "trpo", "qrdqn", "tqc", "crossq")


def version(spec: RunSpec) -> tuple[int, ...]:
    """The framework's version as numbers: ``2.7.1`` and ``2.7.1a3`` are (2, 7, 1)."""
    text = spec.text("framework.version")
    match = re.match(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?", text)
    if match is None:
        raise SpecError("framework.version", f"{text!r} is not a version such as {LATEST}")
    return tuple(int(part or 0) for part in match.groups())


def is_on_policy(spec: RunSpec) -> bool:
    """PPO and its kin keep rollouts; the others keep replay buffers."""
    return spec.text("algorithm") in ON_POLICY


def channels_first(leaf: Leaf) -> tuple[int, ...]:
    """An image's shape as the network sees it: VecTransposeImage moves the channels when they come last."""
    height, width, channels = leaf.shape
    return leaf.shape if leaf.is_channels_first else (channels, height, width)


def resolve(spec: RunSpec) -> RunSpec:
    """Fill in what SB3 would, with its version as the origin."""
    algorithm = spec.text("algorithm")
    if spec.get("agents", 1) > 1:
        raise SpecError("agents", "SB3 has one agent per environment; set n_envs to the number of agents in all")
    spec = spec.filled({"framework.version": LATEST}, "newest version rlmem has read")
    origin = f"sb3 {spec.text('framework.version')} default for {algorithm}"
    spec = spec.filled(ALGORITHMS[algorithm], origin)
    leaves = spec.observation_leaves
    is_dict = isinstance(spec.observation, (DictSpace, TupleSpace))
    image = not is_dict and leaves[0].is_image
    extractor = "combined" if is_dict else "nature" if image else "flatten"
    spec = spec.filled(
        {
            "agents": 1,
            "n_envs": 1,
            "vec_env": "dummy",
            "device": "cpu",
            "precision": "float32",
            "normalize_images": True,
            "network.extractor": extractor,
            "network.activation": "tanh" if algorithm in ON_POLICY else "relu",
            "network.share_features_extractor": algorithm in ON_POLICY,
            "eval.attached": True if "eval.n_envs" in spec else None,
        },
        origin,
    )
    nature = spec.get("network.extractor") == "nature"
    spec = spec.filled({"network.net_arch": _net_arch(algorithm, nature=nature)}, origin)
    if is_on_policy(spec):
        spec = spec.filled({"rollout.flatten_copy": spec.count("n_envs") > 1}, f"{origin}: a view for one environment")
        return spec.filled({"batch_size": spec.count("n_steps") * spec.count("n_envs")}, f"{origin}: the whole rollout")
    return spec.filled(
        {
            "replay.kind": "plain",
            "optimize_memory_usage": False,
            "handle_timeout_termination": not spec.flag("optimize_memory_usage"),
        },
        origin,
    )


def _net_arch(algorithm: str, *, nature: bool) -> Any:
    if algorithm in ON_POLICY:
        return () if nature else {"pi": (64, 64), "vf": (64, 64)}
    if algorithm in ("dqn", "qrdqn"):
        return () if nature else (64, 64)
    if algorithm in ("td3", "ddpg"):
        return (256, 256) if nature else (400, 300)
    if algorithm == "crossq":
        return {"pi": (256, 256), "qf": (1024, 1024)}
    return (256, 256)
