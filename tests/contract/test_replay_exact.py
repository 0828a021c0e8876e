"""CompactReplayBuffer against ReplayBuffer and DictReplayBuffer: any space, any stream, sampled at any time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import example, given
from hypothesis import strategies as st

from contract.compare import (
    add,
    assert_same,
    assert_same_counters,
    assert_same_rows,
    assert_same_sample,
    fill,
    reference,
    sampled,
)
from contract.references import normalizer
from contract.strategies import CODECS, Plan, box, examples, plain, plans
from contract.streams import Pace
from rlmem.errors import RlmemError
from rlmem.sb3 import CompactReplayBuffer

#: Any floats come along, and what they come to when normalised is not our business.
pytestmark = [pytest.mark.truth, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

TEXT = {"image": box((3, 8, 8), "uint8"), "vector": box((5,), "float32"), "mode": spaces.Discrete(4)}
PLAIN = Plan(
    observation_space=spaces.Dict(TEXT),
    action_space=spaces.Box(-1, 1, (2,), np.float32),
    n_envs=2,
    buffer_size=200,
    steps=700,
    seed=1,
    pace=Pace(),
    contents={"image": "walk", "vector": "noise", "mode": "still"},
)
VECTOR = replace(PLAIN, observation_space=box((4,), "float32"), contents={"": "walk"})


def checked(plan: Plan, ours: Any, theirs: Any, *, env: Any = None) -> None:
    """Feed both; look at every look."""
    looks = plan.looks
    for number, step in enumerate(plan.play()):
        add(step, ours, theirs)
        if number in looks:
            assert_same_sample(ours, theirs, 1 + (number * 7) % 40, seed=number, env=env)


@given(plan=plans(), codec=st.sampled_from(CODECS))
@example(plan=PLAIN, codec="zstd")
@example(plan=replace(PLAIN, buffer_size=1, n_envs=1, steps=9), codec="none")
@example(plan=replace(PLAIN, buffer_size=3, n_envs=5, steps=9), codec="lz4")
@examples(90)
def test_every_sample_is_the_one_sb3_gives(plan: Plan, codec: str) -> None:
    ours, theirs = CompactReplayBuffer(**plan.common, codec=codec), reference(plan)
    checked(plan, ours, theirs)
    assert_same_counters(ours, theirs)
    assert_same_rows(ours, theirs)


@given(plan=plans(), codec=st.sampled_from(CODECS), reward=st.booleans())
@examples(30)
def test_normalised_samples_too(plan: Plan, codec: str, reward: bool) -> None:
    ours, theirs = CompactReplayBuffer(**plan.common, codec=codec), reference(plan)
    checked(plan, ours, theirs, env=normalizer(plan, reward=reward))


@given(plan=plans(space=plain, steps=lambda rng: rng.randint(1, 400)), resets=st.integers(1, 3))
@examples(15)
def test_a_reset_buffer_starts_again(plan: Plan, resets: int) -> None:
    ours, theirs = CompactReplayBuffer(**plan.common), reference(plan)
    for number in range(resets + 1):
        fill(replace(plan, seed=plan.seed // (number + 1)).play(), ours, theirs)
        assert_same_sample(ours, theirs, 20)
        if number < resets:
            ours.reset()
            theirs.reset()
            assert (ours.size(), ours.pos, ours.full) == (0, 0, False)


@pytest.mark.parametrize("codec", CODECS)
def test_every_part_may_have_its_own_codec(codec: str) -> None:
    own = {"image": codec, "vector": "none"}
    ours, theirs = CompactReplayBuffer(**PLAIN.common, codec=own), reference(PLAIN)
    checked(PLAIN, ours, theirs)


def wider(array: np.ndarray) -> np.ndarray:
    return array.astype({"f": np.float64, "i": np.int64, "u": np.int64}.get(array.dtype.kind, array.dtype))


def strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=-1)[..., ::2] if array.ndim > 1 else array


def reversed_order(array: np.ndarray) -> np.ndarray:
    return np.asfortranarray(array)


def read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("how", [wider, strided, reversed_order, read_only])
@pytest.mark.parametrize("plan", [PLAIN, VECTOR], ids=["dict", "vector"])
def test_arrays_of_other_types_and_layouts_are_stored_as_sb3_does(how: Any, plan: Plan) -> None:
    ours, theirs = CompactReplayBuffer(**plan.common), reference(plan)
    for step in plan.play():
        for buffer in (ours, theirs):
            obs, next_obs, *rest = step.given()
            parts = (
                {key: how(value) for key, value in part.items()} if isinstance(part, dict) else how(part)
                for part in (obs, next_obs)
            )
            buffer.add(*parts, *rest)
    assert_same_sample(ours, theirs, 64)
    assert_same_rows(ours, theirs)


def test_wide_numbers_are_rounded_as_sb3_rounds_them() -> None:
    ours, theirs = CompactReplayBuffer(**VECTOR.common), reference(VECTOR)
    rng = np.random.default_rng(0)
    obs = rng.standard_normal((2, 4))
    for step in VECTOR.play():
        following = rng.standard_normal((2, 4))
        for buffer in (ours, theirs):
            buffer.add(obs, following, step.action.astype(np.float64), list(step.reward), step.done, step.infos)
        obs = following
    assert_same_sample(ours, theirs, 64)
    assert_same_rows(ours, theirs)


@pytest.mark.parametrize("flag", [bool, int, float, np.bool_, lambda flag: np.array([flag]), np.float32])
def test_flags_come_in_any_type(flag: Any) -> None:
    plan = replace(VECTOR, n_envs=1, pace=Pace(terminated=0.1, truncated=0.2))
    ours, theirs = CompactReplayBuffer(**plan.common), reference(plan)
    for step in plan.play():
        infos = [{key: flag(value) if key == "TimeLimit.truncated" else value for key, value in step.infos[0].items()}]
        for buffer in (ours, theirs):
            buffer.add(step.obs, step.next_obs, step.action, step.reward, step.done.astype(np.float32), infos)
    assert_same_sample(ours, theirs, 200)
    assert_same_counters(ours, theirs)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_compares_equal_need_not_be_the_same(dtype: str) -> None:
    """0.0 and -0.0 are equal, a NaN is not even itself: obs and the last next_obs are compared by their bytes."""
    plan = replace(VECTOR, observation_space=box((4,), dtype), n_envs=1)
    ours, theirs = CompactReplayBuffer(**plan.common), reference(plan)
    quiet, other = np.array([np.nan, -np.nan], dtype)
    rng = np.random.default_rng(0)
    for step in replace(plan, steps=600).play():
        obs, following = (rng.choice(np.array([0.0, -0.0, quiet, other], dtype), (1, 4)) for _ in range(2))
        for buffer in (ours, theirs):
            buffer.add(obs.copy(), following.copy(), step.action, step.reward, step.done, step.infos)
    assert_same_sample(ours, theirs, 256)
    assert_same_rows(ours, theirs)


def test_a_batch_kept_stays_what_it_was() -> None:
    ours, theirs = CompactReplayBuffer(**PLAIN.common, codec="auto"), reference(PLAIN)
    kept = []
    for number, step in enumerate(PLAIN.play()):
        add(step, ours, theirs)
        if number % 90 == 5:
            kept.append((sampled(ours, 16, number)[0], sampled(theirs, 16, number)[0]))
    for mine, other in kept:
        assert_same(mine, other)


def test_writing_into_a_batch_leaves_the_buffer_alone() -> None:
    ours, theirs = CompactReplayBuffer(**VECTOR.common), reference(VECTOR)
    fill(VECTOR.play(), ours, theirs)
    for _ in range(5):
        batch = assert_same_sample(ours, theirs, 32)
        for tensor in (batch.observations, batch.next_observations, batch.actions, batch.rewards, batch.dones):
            tensor.fill_(9)


def test_extend_adds_one_by_one() -> None:
    ours, theirs = CompactReplayBuffer(**VECTOR.common), reference(VECTOR)
    steps = list(VECTOR.play())
    for buffer in (ours, theirs):
        columns = zip(*(step.given() for step in steps), strict=True)
        buffer.extend(*(np.array(column) if number < 5 else column for number, column in enumerate(columns)))
    assert_same_sample(ours, theirs, 64)
    assert_same_counters(ours, theirs)


def test_one_buffer_can_be_read_into_another() -> None:
    plan = replace(VECTOR, n_envs=1, steps=120)
    source, other, theirs = (CompactReplayBuffer(**plan.common), CompactReplayBuffer(**plan.common), reference(plan))
    fill(plan.play(), source)
    infos = [[{"TimeLimit.truncated": bool(one)} for one in row] for row in source.timeouts]
    for buffer in (other, theirs):
        buffer.extend(
            source.observations, source.next_observations, source.actions, source.rewards, source.dones, infos
        )
    assert_same_rows(other, theirs)


@pytest.mark.parametrize("plan", [PLAIN, VECTOR], ids=["dict", "vector"])
def test_views_read_as_arrays(plan: Plan) -> None:
    ours, theirs = CompactReplayBuffer(**plan.common), reference(plan)
    fill(plan.play(), ours, theirs)
    rows, envs = np.array([0, 99, 3, 3, -1]), np.array([1, 0, 0, 1, 1])
    picks = (
        0,
        -1,
        slice(None, 7),
        slice(90, None),
        slice(None, None, 9),
        [4, 2],
        rows,
        (rows, envs),
        (5, 1),
        (slice(2, 5), 0),
    )
    named = isinstance(plan.observation_space, spaces.Dict)
    for name in ("observations", "next_observations"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        for key in other if named else [None]:
            view, array = (mine, other) if key is None else (mine[key], other[key])
            for pick in picks:
                assert_same(np.asarray(view[pick]), array[pick], f"{name} {key} [{pick}]")
            assert_same(np.stack(list(view)), array, f"{name} {key} iterated")


def test_any_row_can_be_asked_for() -> None:
    ours, theirs = CompactReplayBuffer(**PLAIN.common), reference(PLAIN)
    fill(PLAIN.play(), ours, theirs)
    rows = np.array([0, 99, 50, 50, 0])
    for buffer in (ours, theirs):
        np.random.seed(3)
        buffer.kept = buffer._get_samples(rows)
    assert_same(ours.kept, theirs.kept)


def test_flags_set_by_hand_count() -> None:
    ours, theirs = CompactReplayBuffer(**PLAIN.common), reference(PLAIN)
    fill(PLAIN.play(), ours, theirs)
    for buffer in (ours, theirs):
        buffer.dones[buffer.pos - 1, :] = True
        buffer.timeouts[3:9] = 1
        buffer.rewards[5] = 44
    assert_same_sample(ours, theirs, 200)


def test_sampling_draws_on_after_a_batch() -> None:
    ours, theirs = CompactReplayBuffer(**VECTOR.common), reference(VECTOR)
    fill(VECTOR.play(), ours, theirs)
    runs = []
    for buffer in (ours, theirs):
        np.random.seed(8)
        runs.append([buffer.sample(16) for _ in range(10)])
    for mine, other in zip(*runs, strict=True):
        assert_same(mine, other)


def test_an_empty_buffer_says_so() -> None:
    with pytest.raises((RlmemError, ValueError)):
        CompactReplayBuffer(**VECTOR.common).sample(4)


def test_a_buffer_called_full_by_hand_reads_zeros() -> None:
    ours, theirs = CompactReplayBuffer(**PLAIN.common), reference(PLAIN)
    ours.full = theirs.full = True
    assert_same_sample(ours, theirs, 8)


@pytest.mark.parametrize("timeouts", [True, False])
def test_sb3s_way_of_saving_memory_is_accepted_and_exact(timeouts: bool) -> None:
    plan = replace(VECTOR, timeouts=timeouts)
    ours, theirs = CompactReplayBuffer(**plan.common, optimize_memory_usage=True), reference(plan)
    checked(plan, ours, theirs)


def test_samples_are_on_the_device_asked_for() -> None:
    ours = CompactReplayBuffer(**{**VECTOR.common, "device": "auto"})
    assert ours.device == reference(replace(VECTOR)).device or th.cuda.is_available()
    fill(VECTOR.play(), ours)
    assert ours.sample(4).observations.device.type == ours.device.type
