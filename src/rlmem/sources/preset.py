"""The built-in runs: readable YAML files in the package."""

from __future__ import annotations

from importlib import resources

from rlmem.core.spec import RunSpec
from rlmem.errors import UsageError, did_you_mean
from rlmem.sources.config import parse_run

#: Name and what it shows; the file is ``presets/NAME.yaml``.
PRESETS = {
    "drone-swarm": "1024 drones, PPO + autoencoder over a 300-sample history, one full-batch update",
    "drone-swarm-v0": "the same with its redundant history array",
    "pyboy-ppo": "SB3 PPO on stacked Game Boy frames, 2 emulators, 8192-step rollouts",
    "crypto-ppo": "ElegantRL PPO on 71 market features inside Optuna trials",
    "pidog-sac": "SB3 SAC on camera + sensors (Dict), 400k transitions",
    "pidog-td3": "SB3 TD3 on camera + sensors (Dict), 400k transitions",
    "pidog-sac-vector": "SB3 SAC on the sensors alone, 1M transitions",
}


def preset_text(name: str) -> str:
    """The YAML of a preset."""
    if name not in PRESETS:
        raise UsageError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}; known: {', '.join(PRESETS)}")
    return resources.files("rlmem").joinpath("presets").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def read_preset(name: str) -> RunSpec:
    """A preset as a spec; origins name its file and line."""
    return parse_run(preset_text(name), where=f"preset {name}", extend=read_preset)
