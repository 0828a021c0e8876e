"""A resized buffer keeps the newest transitions, in order, and goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from contract.compare import assert_same, fill
from contract.stacks import Stacking, any_stacking, stack_plan
from contract.strategies import CODECS, Plan, box, chosen, examples, plans
from contract.streams import Pace, Step
from rlmem.errors import RlmemError
from rlmem.sb3 import CompactReplayBuffer

pytestmark = pytest.mark.truth


def by_age(buffer: Any, array: Any) -> np.ndarray:
    """Stored rows, oldest first."""
    rows = np.asarray(array)
    return np.roll(rows, -buffer.pos, axis=0) if buffer.full else rows[: buffer.pos]


def assert_holds_newest(buffer: Any, steps: list[Step]) -> None:
    rows = buffer.size()
    newest = steps[len(steps) - rows :]
    for mine, name in ((buffer.observations, "obs"), (buffer.next_observations, "next_obs")):
        given = [getattr(step, name) for step in newest]
        for key in mine if isinstance(mine, dict) else [None]:
            view, values = (mine, given) if key is None else (mine[key], [one[key] for one in given])
            stored = by_age(buffer, view)
            assert_same(stored, np.stack(values).astype(view.dtype).reshape(stored.shape), f"{name} {key}")
    assert_same(by_age(buffer, buffer.rewards), np.stack([step.reward for step in newest]), "rewards")
    assert np.array_equal(by_age(buffer, buffer.dones), np.stack([step.done for step in newest]))


def checked(plan: Plan, sizes: list[int], codec: str) -> None:
    ours = CompactReplayBuffer(**plan.common, codec=codec)
    steps = list(plan.play())
    seen: list[Step] = []
    share = max(len(steps) // (len(sizes) + 1), 1)
    for number, size in enumerate([*sizes, None]):
        seen += fill(steps[number * share : (number + 1) * share], ours)
        assert_holds_newest(ours, seen)
        if size is not None and seen:
            before = ours.size()
            ours.resize(size)
            rows = max(size // plan.n_envs, 1)
            assert (ours.buffer_size, ours.size()) == (rows, min(before, rows))
            assert_holds_newest(ours, seen)
            ours.sample(9)


@given(plan=plans(), sizes=st.lists(st.integers(1, 900), min_size=1, max_size=4), codec=st.sampled_from(CODECS))
@examples(30)
def test_the_newest_are_kept(plan: Plan, sizes: list[int], codec: str) -> None:
    checked(plan, sizes, codec)


@given(
    stacking=chosen(any_stacking),
    sizes=st.lists(st.integers(1, 900), min_size=1, max_size=3),
    codec=st.sampled_from(CODECS),
)
@examples(18)
def test_the_newest_stacks_are_kept(stacking: Stacking, sizes: list[int], codec: str) -> None:
    checked(stack_plan(stacking, steps=800, buffer_size=500), sizes, codec)


def test_smaller_takes_less_memory() -> None:
    image = box((3, 32, 32), "uint8")
    common = {"observation_space": image, "action_space": spaces.Discrete(3), "n_envs": 2}
    plan = Plan(**common, buffer_size=3000, steps=1500, seed=0, pace=Pace())
    ours = CompactReplayBuffer(**plan.common)
    fill(plan.play(), ours)
    before = ours.nbytes
    ours.resize(300)
    assert ours.nbytes < before / 3


@pytest.mark.parametrize("size", [0, -5])
def test_a_size_without_rows_is_refused(size: int) -> None:
    plan = stack_plan(Stacking(layout="window"))
    with pytest.raises(RlmemError):
        CompactReplayBuffer(**plan.common).resize(size)
