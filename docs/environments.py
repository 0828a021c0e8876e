"""Writes src/rlmem/sources/environments.yaml: what public environments observe and take, read off real ones.

Run ``python docs/environments.py`` where gymnasium is installed with its classic control, Box2D and MuJoCo extras, and with
those of ale-py, minigrid, highway-env and gymnasium-robotics that should be in the table. Every environment is made once,
which takes about a minute; one that cannot be made there is left out and named.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gymnasium

from rlmem.agent.describe import space

FILE = Path(__file__).parents[1] / "src" / "rlmem" / "sources" / "environments.yaml"
PACKAGES = ("ale_py", "minigrid", "highway_env", "gymnasium_robotics")
#: Whole families with the same spaces, checked below: one line each. The first that matches counts.
PATTERNS = (
    "MiniGrid-Dynamic-Obstacles-*",
    "MiniGrid-*",
    "BabyAI-*",
    "AntMaze_*-v3",
    "AntMaze_*-v4",
    "AntMaze_*-v5",
    "PointMaze_*",
)
#: Ids of earlier versions that are no longer registered: the id, with arguments, that has the same spaces.
EARLIER: dict[str, tuple[str, dict[str, Any]]] = {
    "Ant-v2": ("Ant-v4", {"use_contact_forces": True}),
    "Ant-v3": ("Ant-v4", {"use_contact_forces": True}),
    "BipedalWalker-v2": ("BipedalWalker-v3", {}),
    "BipedalWalkerHardcore-v2": ("BipedalWalkerHardcore-v3", {}),
    "CarRacing-v0": ("CarRacing-v3", {}),
    "CarRacing-v1": ("CarRacing-v3", {}),
    "CarRacing-v2": ("CarRacing-v3", {}),
    "CliffWalking-v0": ("CliffWalking-v1", {}),
    "FrozenLake-v0": ("FrozenLake-v1", {}),
    "FrozenLake8x8-v0": ("FrozenLake8x8-v1", {}),
    "HalfCheetah-v2": ("HalfCheetah-v4", {}),
    "HalfCheetah-v3": ("HalfCheetah-v4", {}),
    "Hopper-v2": ("Hopper-v4", {}),
    "Hopper-v3": ("Hopper-v4", {}),
    "Humanoid-v2": ("Humanoid-v4", {}),
    "Humanoid-v3": ("Humanoid-v4", {}),
    "HumanoidStandup-v2": ("HumanoidStandup-v4", {}),
    "InvertedDoublePendulum-v2": ("InvertedDoublePendulum-v4", {}),
    "InvertedPendulum-v2": ("InvertedPendulum-v4", {}),
    "LunarLander-v2": ("LunarLander-v3", {}),
    "LunarLanderContinuous-v2": ("LunarLanderContinuous-v3", {}),
    "Pendulum-v0": ("Pendulum-v1", {}),
    "Pusher-v2": ("Pusher-v5", {}),
    "Pusher-v4": ("Pusher-v5", {}),
    "Reacher-v2": ("Reacher-v4", {}),
    "Swimmer-v2": ("Swimmer-v4", {}),
    "Swimmer-v3": ("Swimmer-v4", {}),
    "Taxi-v2": ("Taxi-v4", {}),
    "Taxi-v3": ("Taxi-v4", {}),
    "Walker2d-v2": ("Walker2d-v4", {}),
    "Walker2d-v3": ("Walker2d-v4", {}),
}
#: How the ids of a game of the Arcade Learning Environment are spelled; the last two are of earlier versions.
ATARI_IDS = ("ALE/*-v5", "*-v0", "*-v4", "*NoFrameskip-v0", "*NoFrameskip-v4", "*Deterministic-v0", "*Deterministic-v4")
HEADER = """\
# What public environments observe and take when made without arguments, in the words of a run file (docs/run-file.md).
# Written by docs/environments.py from real ones: {packages}.
# A name with * stands for a family; the first that matches counts. Bounds are given only where they decide whether
# something is an image. MiniGrid's mission is a text, which no buffer stores, and is left out.
# "earlier" names ids that are no longer registered by the id with the same spaces.
"""


def is_text(item: Any) -> bool:
    """Whether a space is one of words; MiniGrid's missions are a kind of their own."""
    return isinstance(item, gymnasium.spaces.Text) or type(item).__name__.endswith("MissionSpace")


def described(item: Any) -> dict[str, Any]:
    """A space in the words of a run file, without what decides nothing: texts, and bounds of what is no image."""
    if isinstance(item, gymnasium.spaces.Dict):
        return {"type": "dict", "spaces": {key: described(sub) for key, sub in item.items() if not is_text(sub)}}
    if isinstance(item, gymnasium.spaces.Tuple):
        return {"type": "tuple", "spaces": [described(sub) for sub in item]}
    out = dict(space(item))
    bounds = (out.get("low"), out.get("high"))
    if out["type"] == "box" and (len(out["shape"]) != 3 or bounds == (0.0, 255.0)):
        out.pop("low", None)
        out.pop("high", None)
    return out


def spaces_of(name: str, **arguments: Any) -> dict[str, Any]:
    """Both spaces of an environment made for it."""
    env = gymnasium.make(name, **arguments)
    try:
        return {"observation": described(env.observation_space), "action": described(env.action_space)}
    finally:
        env.close()


def made(names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What can be made here."""
    for name in names:
        try:
            yield name, spaces_of(name)
        except (ImportError, AssertionError, gymnasium.error.Error) as error:
            print(f"left out: {name}: {str(error).splitlines()[0] if str(error) else error!r}", file=sys.stderr)


def flow(value: Any) -> str:
    """One line of YAML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(flow(item) for item in value) + "]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def families(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The same by id or, for a family, by its pattern; a family whose members differ is an error."""
    shapes = {pattern: re.compile(re.escape(pattern).replace(r"\*", ".*")) for pattern in PATTERNS}
    out: dict[str, dict[str, Any]] = {}
    for name, spaces in found.items():
        key = next((pattern for pattern, shape in shapes.items() if shape.fullmatch(name)), name)
        if out.setdefault(key, spaces) != spaces:
            raise SystemExit(f"{name} is not like the others of {key}: {flow(spaces)}")
    plain = sorted((key for key in out if key not in PATTERNS), key=str.lower)
    return {key: out[key] for key in (*plain, *(pattern for pattern in PATTERNS if pattern in out))}


def games(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Height of the screen and number of actions of every game; all spellings of a game must agree."""
    out: dict[str, dict[str, int]] = {}
    for name, spaces in found.items():
        game = re.sub(r"^ALE/|(NoFrameskip)?-v\d$", "", name)
        height, width, channels = spaces["observation"]["shape"]
        assert (width, channels, spaces["observation"]["dtype"]) == (160, 3, "uint8"), name
        row = {"height": height, "actions": spaces["action"]["n"]}
        if out.setdefault(game, row) != row:
            raise SystemExit(f"{name} is not like the others of {game}: {row}")
    return dict(sorted(out.items()))


def table() -> str:
    """The whole file."""
    for package in PACKAGES:
        gymnasium.register_envs(import_module(package))
    found = dict(made(name for name in gymnasium.registry if not name.startswith("Gym")))
    atari = {name: spaces for name, spaces in found.items() if "ale_py" in str(gymnasium.spec(name).entry_point)}
    others = {name: spaces for name, spaces in found.items() if name not in atari}
    others |= {name: spaces_of(other, **arguments) for name, (other, arguments) in EARLIER.items() if arguments}
    same = {name: other for name, (other, arguments) in EARLIER.items() if not arguments}
    packages = ", ".join(f"{name.replace('_', '-')} {version(name)}" for name in ("gymnasium", "mujoco", *PACKAGES))
    lines = [HEADER.format(packages=packages), "environments:"]
    lines += [f"  {key}: {flow(spaces)}" for key, spaces in families(others).items()]
    lines += ["earlier:", *(f"  {name}: {other}" for name, other in same.items())]
    lines += ["atari:", "  ids: [" + ", ".join(f'"{name}"' for name in ATARI_IDS) + "]", "  games:"]
    lines += [f"    {game}: {flow(row)}" for game, row in games(atari).items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    FILE.write_text(table(), encoding="utf-8")
