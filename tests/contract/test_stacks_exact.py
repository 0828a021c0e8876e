"""Frame stacks and windows are stored once and come back exact: recognised, declared, or declared wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecTransposeImage

from contract.compare import add, assert_same_rows, assert_same_sample, fill, reference
from contract.envs import TinyImage
from contract.stacks import LAYOUTS, PADDINGS, Stacking, StackPlan, any_stack_plan, stack_plan
from contract.strategies import CODECS, Plan, chosen, examples
from contract.streams import Pace
from rlmem.sb3 import CompactReplayBuffer

pytestmark = pytest.mark.truth


def declared(stacking: Stacking, named: bool) -> dict[str, Any]:
    if named:
        return {"stack": {"image": stacking.frames}, "stack_axis": {"image": stacking.axis}}
    return {"stack": stacking.frames, "stack_axis": stacking.axis}


def checked(plan: Plan, **options: Any) -> tuple[Any, Any]:
    ours, theirs = CompactReplayBuffer(**plan.common, **options), reference(plan)
    looks = plan.looks
    for number, step in enumerate(plan.play()):
        add(step, ours, theirs)
        if number in looks:
            assert_same_sample(ours, theirs, 1 + (number * 7) % 40, seed=number)
    assert_same_rows(ours, theirs)
    return ours, theirs


@given(
    plan=chosen(any_stack_plan),
    how=st.sampled_from(("auto", "declared", "axis left open", "wrong number", "none")),
    codec=st.sampled_from(CODECS),
)
@examples(60)
def test_any_stack_comes_back_exact(plan: StackPlan, how: str, codec: str) -> None:
    ((key, stacking),) = plan.stacked.items()
    named = bool(key)
    along = stacking.space.shape[stacking.axis]
    wrong = next((n for n in range(2, along) if along % n == 0 and n != stacking.frames), along)
    options: dict[str, Any] = {
        "auto": {},
        "declared": declared(stacking, named),
        "axis left open": {"stack": declared(stacking, named)["stack"]},
        "wrong number": declared(replace(stacking, frames=wrong), named),
        "none": {"stack": None},
    }[how]
    checked(plan, codec=codec, **options)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_every_layout_is_exact_over_many_wraps(layout: str, padding: str) -> None:
    plan = stack_plan(Stacking(layout=layout, padding=padding), buffer_size=301, steps=1500, n_envs=3)
    checked(plan)


@pytest.mark.parametrize("codec", CODECS)
def test_a_stack_declared_where_there_is_none_is_exact_all_the_same(codec: str) -> None:
    noise = Plan(
        observation_space=Stacking(layout="channels first").space,
        action_space=spaces.Discrete(3),
        n_envs=2,
        buffer_size=500,
        steps=700,
        seed=2,
        pace=Pace(),
    )
    checked(noise, stack=4, stack_axis=0, codec=codec)
    checked(replace(noise, contents={"": "constant"}), stack=4, stack_axis=0, codec=codec)


@pytest.mark.parametrize("n_steps", [3, 10])
def test_n_step_returns_over_stacks(n_steps: int) -> None:
    plan = stack_plan(Stacking(layout="channels first"), steps=700, buffer_size=500)
    ours = CompactReplayBuffer(**plan.common, n_steps=n_steps, gamma=0.97)
    theirs = NStepReplayBuffer(**plan.common, n_steps=n_steps, gamma=0.97)
    fill(plan.play(), ours, theirs)
    for seed in range(4):
        assert_same_sample(ours, theirs, 64, seed=seed)


def test_a_stack_that_begins_after_other_data_is_exact() -> None:
    """What is recognised in the first transitions need not hold later, and the other way round."""
    stacked = stack_plan(Stacking(layout="channels first"), steps=800, buffer_size=4000)
    noise = Plan(**{name: getattr(stacked, name) for name in Plan.__dataclass_fields__})
    for first, second in ((stacked, noise), (noise, stacked)):
        ours, theirs = CompactReplayBuffer(**stacked.common, codec="auto"), reference(stacked)
        fill(first.play(), ours, theirs)
        fill(second.play(), ours, theirs)
        fill(first.play(), ours, theirs)
        assert_same_rows(ours, theirs)
        assert_same_sample(ours, theirs, 256)


def vec_frame_stack(order: str) -> VecEnv:
    env: VecEnv = VecFrameStack(DummyVecEnv([lambda: TinyImage(seed=7)] * 2), n_stack=4, channels_order="last")
    return env if order == "last" else VecTransposeImage(env)


def frame_stack_observation(padding: str) -> VecEnv:
    def made() -> gym.Env[Any, Any]:
        return FrameStackObservation(TinyImage(seed=7), 3, padding_type=padding)

    return DummyVecEnv([made, made])


WRAPPED: dict[str, Callable[[], VecEnv]] = {
    "VecFrameStack": lambda: vec_frame_stack("last"),
    "VecFrameStack transposed": lambda: vec_frame_stack("first"),
    "FrameStackObservation reset": lambda: frame_stack_observation("reset"),
    "FrameStackObservation zero": lambda: frame_stack_observation("zero"),
}


def collected(env: VecEnv, steps: int) -> Iterator[tuple[Any, ...]]:
    """What an off-policy algorithm of SB3 stores: the final observation in place of the reset one."""
    env.action_space.seed(0)
    obs = env.reset()
    for _ in range(steps):
        action = np.array([env.action_space.sample() for _ in range(env.num_envs)])
        new, reward, done, infos = env.step(action)
        following = np.array(new)
        for number in np.flatnonzero(done):
            following[number] = infos[number]["terminal_observation"]
        yield np.array(obs), following, action, reward, done, infos
        obs = new


@pytest.mark.parametrize("stack", ["auto", "declared"])
@pytest.mark.parametrize("wrapper", list(WRAPPED))
def test_what_the_wrappers_give_is_exact(wrapper: str, stack: str) -> None:
    env = WRAPPED[wrapper]()
    frames = 4 if wrapper.startswith("Vec") else 3
    plan = Plan(
        observation_space=env.observation_space,
        action_space=env.action_space,
        n_envs=2,
        buffer_size=500,
        steps=800,
        seed=0,
        pace=Pace(),
    )
    ours, theirs = CompactReplayBuffer(**plan.common, stack=stack if stack == "auto" else frames), reference(plan)
    for number, step in enumerate(collected(env, 800)):
        for buffer in (ours, theirs):
            buffer.add(*step)
        if number % 90 == 0:
            assert_same_sample(ours, theirs, 32, seed=number)
    assert_same_rows(ours, theirs)
