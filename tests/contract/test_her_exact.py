"""CompactHerReplayBuffer against HerReplayBuffer: three strategies, infos kept or not, trajectories cut off."""

from __future__ import annotations

import copy
import pickle
import warnings
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3 import HerReplayBuffer

from contract.compare import add, assert_same_counters, assert_same_sample, fill
from contract.references import normalizer, still_env
from contract.strategies import CODECS, Plan, box, examples, plans
from contract.streams import Pace
from rlmem.sb3 import CompactHerReplayBuffer

#: Any floats come along, and what they come to when subtracted is not our business.
pytestmark = [pytest.mark.truth, pytest.mark.filterwarnings("ignore::RuntimeWarning")]


def goals(observation: spaces.Space[Any], goal: spaces.Space[Any]) -> spaces.Dict:
    return spaces.Dict({"observation": observation, "achieved_goal": goal, "desired_goal": goal})


SEEN = (box((4,), "float32"), box((3, 6, 6), "uint8"), box((3,), "float64"), spaces.MultiBinary(5))
GOALS = (box((2,), "float32"), box((1,), "int32"), spaces.MultiBinary(3))


def goal_space(rng: Random) -> spaces.Dict:
    return goals(rng.choice(SEEN), rng.choice(GOALS))


def goal_pace(rng: Random) -> Pace:
    """Episodes must end for anything to be sampled."""
    return Pace(
        terminated=rng.choice((0.05, 0.3, 1.0)), truncated=rng.choice((0.0, 0.1)), broken=rng.choice((0.0, 0.05))
    )


def goal_steps(rng: Random) -> int:
    return rng.randint(*rng.choice(((5, 80), (5, 80), (400, 800))))


PLAN = Plan(
    observation_space=goals(box((3, 6, 6), "uint8"), box((2,), "float32")),
    action_space=spaces.Box(-1, 1, (2,), np.float32),
    n_envs=3,
    buffer_size=300,
    steps=250,
    seed=5,
    pace=Pace(terminated=0.1),
    contents={"observation": "walk"},
)


def pair(plan: Plan, codec: str = "none", **options: Any) -> tuple[Any, Any]:
    env = still_env(plan)
    return (
        CompactHerReplayBuffer(**plan.common, env=env, codec=codec, **options),
        HerReplayBuffer(**plan.common, env=env, **options),
    )


def can_be_sampled(buffer: HerReplayBuffer) -> bool:
    return bool((buffer.ep_length > 0).any())


@given(
    plan=plans(space=goal_space, pace=goal_pace, steps=goal_steps),
    strategy=st.sampled_from(("future", "final", "episode")),
    n_goals=st.integers(1, 6),
    infos=st.booleans(),
    codec=st.sampled_from(CODECS),
    norm=st.booleans(),
    cut=st.booleans(),
)
@examples(45)
def test_hindsight_samples_are_those_of_sb3(
    plan: Plan, strategy: str, n_goals: int, infos: bool, codec: str, norm: bool, cut: bool
) -> None:
    ours, theirs = pair(plan, codec, goal_selection_strategy=strategy, n_sampled_goal=n_goals, copy_info_dict=infos)
    env, looks = normalizer(plan) if norm else None, plan.looks
    for number, step in enumerate(plan.play()):
        add(step, ours, theirs)
        if number not in looks:
            continue
        if can_be_sampled(theirs):
            assert_same_sample(ours, theirs, 2 + number % 40, seed=number, env=env)
        if cut and number % 3 == 0:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ours.truncate_last_trajectory()
                theirs.truncate_last_trajectory()
            if can_be_sampled(theirs):
                assert_same_sample(ours, theirs, 10, seed=number, env=env)
    assert_same_counters(ours, theirs)
    for name in ("ep_start", "ep_length", "_current_ep_start"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


def test_nothing_is_sampled_before_an_episode_ends() -> None:
    plan = replace(PLAN, pace=Pace(terminated=0, truncated=0), steps=5)
    for buffer in pair(plan):
        fill(plan.play(), buffer)
        with pytest.raises(RuntimeError, match="end of the first episode"):
            buffer.sample(4)


def test_cutting_off_warns_as_sb3_does() -> None:
    ours, _ = pair(PLAN)
    fill(PLAN.play(), ours)
    with pytest.warns(UserWarning, match="last trajectory in the replay buffer will be truncated"):
        ours.truncate_last_trajectory()


@pytest.mark.parametrize(
    "way", [copy.deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))], ids=["copied", "pickled"]
)
@pytest.mark.parametrize("infos", [False, True], ids=["plain", "infos"])
def test_a_copy_asks_for_its_environment_and_goes_on(way: Any, infos: bool) -> None:
    ours, theirs = pair(PLAN, copy_info_dict=infos)
    steps = list(PLAN.play())
    fill(steps[:140], ours, theirs)
    again = way(ours)
    assert again.env is None
    again.set_env(theirs.env)
    with pytest.raises(ValueError, match="already initialized"):
        again.set_env(theirs.env)
    fill(steps[140:], again, theirs)
    assert_same_sample(again, theirs, 50)


def test_it_is_one_of_sb3s_hindsight_buffers() -> None:
    assert issubclass(CompactHerReplayBuffer, HerReplayBuffer)
