"""The table of environments against real ones, made here."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import pytest

from rlmem.agent.describe import space
from rlmem.core.spaces import Space, leaves, parse_space
from rlmem.sources.environments import find_environment

gymnasium = pytest.importorskip("gymnasium", reason="the 'truth' extra is not installed; 'make test' installs it")

pytestmark = pytest.mark.truth

#: Package that registers them (None: gymnasium itself) and some of its environments.
NAMES: dict[str | None, tuple[str, ...]] = {
    None: (
        *("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"),
        *("FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4", "Blackjack-v1", "CliffWalking-v1"),
        *("LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "CarRacing-v3"),
        *("HalfCheetah-v4", "HalfCheetah-v5", "Hopper-v5", "Walker2d-v4", "Ant-v4", "Ant-v5", "Humanoid-v4"),
        *("Humanoid-v5", "HumanoidStandup-v5", "Swimmer-v5", "Reacher-v5", "Pusher-v5", "InvertedPendulum-v4"),
    ),
    "ale_py": (
        *("ALE/Pong-v5", "PongNoFrameskip-v4", "Breakout-v4", "ALE/Carnival-v5", "ALE/MsPacman-v5"),
        *("SeaquestNoFrameskip-v4", "ALE/Adventure-v5", "ALE/Tetris-v5"),
    ),
    "minigrid": ("MiniGrid-Empty-8x8-v0", "MiniGrid-Dynamic-Obstacles-6x6-v0", "BabyAI-GoToObj-v0"),
    "highway_env": ("highway-v0", "parking-v0", "racetrack-v0", "two-way-v0", "intersection-multi-agent-v0"),
    "gymnasium_robotics": ("PointMaze_UMaze-v3", "AntMaze_UMaze-v5", "AdroitHandPen-v1"),
}
CASES = [(package, name) for package, names in NAMES.items() for name in names]
#: Ids that are no longer registered, and what to make in their place.
EARLIER = {"Ant-v3": ("Ant-v4", {"use_contact_forces": True}), "LunarLander-v2": ("LunarLander-v3", {})}


def real(name: str, **arguments: Any) -> Any:
    """An environment, its warnings about age kept to itself; skipped where what it needs is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return gymnasium.make(name, **arguments)
        except (ImportError, gymnasium.error.DependencyNotInstalled, gymnasium.error.NamespaceNotFound) as error:
            pytest.skip(f"{name} cannot be made here: {error}")


def sized(item: Any) -> list[tuple[str, tuple[int, ...], str, int, bool]]:
    """What decides memory: name, shape, dtype and one-hot width of every array, and whether it is an image."""
    if isinstance(item, gymnasium.spaces.Dict):  # as in the table: a mission is a text
        item = gymnasium.spaces.Dict({key: sub for key, sub in item.items() if key != "mission"})
    known: Space = item if isinstance(item, Space) else parse_space(space(item))
    return sorted((leaf.name, leaf.shape, leaf.dtype, leaf.width, leaf.is_image) for leaf in leaves(known))


@pytest.mark.parametrize(("package", "name"), CASES, ids=[name for _, name in CASES])
def test_the_table_says_what_a_real_environment_says(package: str | None, name: str) -> None:
    if package is not None:
        pytest.importorskip(package)
        gymnasium.register_envs(import_module(package))
    found, env = find_environment(name), real(name)
    assert found is not None
    assert [sized(part) for part in found] == [sized(env.observation_space), sized(env.action_space)]
    env.close()


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_id_has_the_spaces_of_what_took_its_place(name: str) -> None:
    successor, arguments = EARLIER[name]
    found, env = find_environment(name), real(successor, **arguments)
    assert found is not None
    assert [sized(part) for part in found] == [sized(env.observation_space), sized(env.action_space)]
    env.close()
