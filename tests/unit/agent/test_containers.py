"""What an element adds to a container, against what Python allocates for more of them."""

from __future__ import annotations

import random
import tracemalloc
from collections import deque, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pytest

from rlmem.agent.containers import Adding, Containers, slot
from rlmem.agent.state import State

#: Elements that are there, and those that follow.
THERE, MORE = 1200, 1500
CONFIG = np.ones(5_000_000, np.uint8)
POOL = [np.ones(20_000, np.uint8) for _ in range(1000)]
Step = namedtuple("Step", "obs action reward next_obs done")


@dataclass
class Transition:
    obs: Any
    action: int
    reward: float
    next_obs: Any
    config: Any


@dataclass(slots=True)
class Slotted:
    obs: Any
    reward: float
    next_obs: Any


class LazyFrames:
    """Frames that observations have in common, as the wrappers of DQN implementations keep them."""

    __slots__ = ("frames", "shape")

    def __init__(self, frames: list[Any]) -> None:
        self.frames, self.shape = frames, (len(frames), *frames[0].shape)


def frame(t: int) -> Any:
    return np.full((42, 42), t % 255, np.uint8)


def steps() -> Iterator[tuple[Any, float, Any]]:
    obs, t = frame(0), 0
    while True:
        t += 1
        after = frame(t)
        yield obs, t * 0.5, after
        obs = after


def stacks(make: Callable[[list[Any]], Any]) -> Iterator[Any]:
    held = deque([frame(0)] * 4, maxlen=4)
    before = make(list(held))
    for _, reward, obs in steps():
        held.append(obs)
        after = make(list(held))
        yield before, reward, after
        before = after


def goals(change: int) -> Iterator[Any]:
    """A goal of an episode, which its transitions share."""
    for t, (obs, reward, after) in enumerate(steps()):
        goal = np.ones(20_000, np.uint8) if t % change == 0 else goal  # noqa: F821
        yield obs, reward, after, goal


ELEMENTS: dict[str, Callable[[], Iterator[Any]]] = {
    "tuples that share a configuration": lambda: ((*step, CONFIG) for step in steps()),
    "tuples that share a pool that somebody keeps": lambda: ((*step, random.choice(POOL)) for step in steps()),
    "named tuples": lambda: (Step(obs, 1, reward, after, False) for obs, reward, after in steps()),
    "dataclasses": lambda: (Transition(obs, 1, reward, after, CONFIG) for obs, reward, after in steps()),
    "dataclasses with slots": lambda: (Slotted(obs, reward, after) for obs, reward, after in steps()),
    "dicts": lambda: ({"obs": obs, "reward": reward, "next_obs": after} for obs, reward, after in steps()),
    "lazy frames": lambda: stacks(LazyFrames),
    "stacks that are copies": lambda: stacks(np.stack),
    "goals of episodes": lambda: goals(50),
    "copies, nothing shared": lambda: ((obs.copy(), reward, after.copy()) for obs, reward, after in steps()),
    "views of a batch": lambda: (
        (each, reward) for obs, reward, _ in steps() for each in np.stack([obs] * 8)
    ),
    "numbers": lambda: (reward for _, reward, _ in steps()),
}  # fmt: skip


def fill(container: Any, elements: Iterator[Any], count: int) -> None:
    for element in islice(elements, count):
        if isinstance(container, dict):
            container[len(container)] = element
        else:
            container.append(element)


@pytest.mark.parametrize("kind", [deque, list, dict])
@pytest.mark.parametrize("name", ELEMENTS)
def test_an_element_adds_what_more_of_them_take(name: str, kind: type) -> None:
    elements, container = ELEMENTS[name](), kind()
    fill(container, elements, THERE)
    said = Adding(slot(container)).look(container).facts()
    tracemalloc.start()
    fill(container, elements, MORE)
    truth = tracemalloc.get_traced_memory()[0] / MORE
    tracemalloc.stop()
    # Blocks of the C library and the growth of tables are not even.
    assert said["bytes_each"] == pytest.approx(truth, rel=0.1, abs=80)
    assert 0.9 * said["least_each"] - 80 <= truth <= 1.15 * said["most_each"] + 80


def test_two_containers_share_what_both_refer_to(tmp_path: Any) -> None:
    before: deque[Any] = deque(maxlen=5000)
    behind: deque[Any] = deque(maxlen=9000)
    for obs, _, after in islice(steps(), 2000):
        before.append(obs)
        behind.append(after)
    state = State({"result": str(tmp_path / "result"), "time_s": 1})
    containers = Containers(state)
    containers.close()
    containers.size()
    rows = {row["capacity"]: row for row in state.facts["containers"] if row["id"] in (id(before), id(behind))}
    # The longer one keeps them when the other has let them go.
    assert rows[9000]["bytes_each"] == pytest.approx(42 * 42 + 150, rel=0.05)
    assert rows[5000]["bytes_each"] == 8


def test_big_arrays_of_elements_are_the_containers_and_shared_ones_are_not() -> None:
    own = [np.ones(1 << 21, np.uint8) for _ in range(8)]
    addresses = [array.__array_interface__["data"][0] for array in own]
    container = deque((own.pop(), CONFIG) for _ in range(8))
    said = Adding(8).look(container).facts()
    assert sorted(said["arrays"]) == sorted(addresses)
    assert said["bytes_each"] == pytest.approx(1 << 21, rel=0.01)
