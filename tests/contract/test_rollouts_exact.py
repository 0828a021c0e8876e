"""Rollout buffers against SB3's and sb3-contrib's: several rollouts in a row, several epochs over each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from sb3_contrib.common.recurrent.buffers import RecurrentDictRolloutBuffer, RecurrentRolloutBuffer
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer

from contract.compare import assert_same
from contract.stacks import LAYOUTS, Stacking, any_stacking, stack_plan
from contract.strategies import CODECS, Plan, chosen, examples, plans
from contract.streams import Step, scribble
from rlmem.sb3 import CompactRecurrentRolloutBuffer, CompactRolloutBuffer

pytestmark = pytest.mark.truth

LAYERS, HIDDEN = 2, 3
rollout_plans = plans(steps=lambda rng: rng.randint(1, 90))
batches = st.one_of(st.none(), st.integers(9, 64))


def arguments(plan: Plan, **options: Any) -> dict[str, Any]:
    given = {name: plan.common[name] for name in ("observation_space", "action_space", "n_envs", "device")}
    return {"buffer_size": plan.steps, **given, "gae_lambda": 0.9, "gamma": 0.97, **options}


def pair(plan: Plan, **options: Any) -> tuple[Any, Any]:
    theirs = DictRolloutBuffer if isinstance(plan.observation_space, spaces.Dict) else RolloutBuffer
    return CompactRolloutBuffer(**arguments(plan, **options)), theirs(**arguments(plan))


def recurrent_pair(plan: Plan, **options: Any) -> tuple[Any, Any]:
    theirs = RecurrentDictRolloutBuffer if isinstance(plan.observation_space, spaces.Dict) else RecurrentRolloutBuffer
    shape = {"hidden_state_shape": (plan.steps, LAYERS, plan.n_envs, HIDDEN)}
    return CompactRecurrentRolloutBuffer(**arguments(plan, **options), **shape), theirs(**arguments(plan), **shape)


def tensor(rng: np.random.Generator, *shape: int) -> th.Tensor:
    return th.as_tensor(rng.standard_normal(shape).astype(np.float32))


def collect(plan: Plan, steps: list[Step], buffers: tuple[Any, Any], *, recurrent: bool, seed: int) -> None:
    """One rollout into both, as on-policy algorithms collect it."""
    rng = np.random.default_rng(seed)
    starts = np.ones(plan.n_envs, bool)
    for buffer in buffers:
        buffer.reset()
    for step in steps:
        value, log_prob = tensor(rng, plan.n_envs, 1), tensor(rng, plan.n_envs)
        states = [
            (tensor(rng, LAYERS, plan.n_envs, HIDDEN), tensor(rng, LAYERS, plan.n_envs, HIDDEN)) for _ in range(2)
        ]
        for buffer in buffers:
            obs, _, action, reward, _, _ = given = step.given()
            more = {"lstm_states": RNNStates(*states)} if recurrent else {}
            buffer.add(obs, action, reward, starts, value, log_prob, **more)
            scribble((given[0], given[2], given[3], ()))
        starts = step.done
    last = tensor(rng, plan.n_envs, 1)
    for buffer in buffers:
        assert buffer.full
        buffer.compute_returns_and_advantage(last_values=last.clone(), dones=starts.copy())


def read(buffer: Any, batch: int | None, seed: int) -> Iterator[Any]:
    np.random.seed(seed)
    for _ in range(2):  # epochs
        yield from buffer.get(batch)
    yield (th.tensor(np.random.random()),)  # where the generator was left


def compared(plan: Plan, buffers: tuple[Any, Any], batch: int | None, *, recurrent: bool, rollouts: int = 3) -> None:
    ours, theirs = buffers
    steps = list(replace(plan, steps=plan.steps * rollouts).play())
    for number in range(rollouts):
        chunk = steps[number * plan.steps : (number + 1) * plan.steps]
        collect(plan, chunk, buffers, recurrent=recurrent, seed=number)
        assert_same(ours.advantages, theirs.advantages, "advantages")
        assert_same(ours.returns, theirs.returns, "returns")
        mine, other = list(read(ours, batch, number)), list(read(theirs, batch, number))
        for index, (one, two) in enumerate(zip(mine, other, strict=True)):
            assert_same(one, two, f"rollout {number}, batch {index}")
        # what algorithms read afterwards to say how much variance was explained
        assert_same(ours.values.flatten(), theirs.values.flatten(), "values")
        assert_same(ours.returns.flatten(), theirs.returns.flatten(), "returns")


@given(plan=rollout_plans, batch=batches, codec=st.sampled_from(CODECS))
@examples(40)
def test_rollouts_are_those_of_sb3(plan: Plan, batch: int | None, codec: str) -> None:
    compared(plan, pair(plan, codec=codec), batch, recurrent=False)


@given(plan=rollout_plans, batch=batches, codec=st.sampled_from(CODECS))
@examples(20)
def test_recurrent_rollouts_are_those_of_sb3_contrib(plan: Plan, batch: int | None, codec: str) -> None:
    compared(plan, recurrent_pair(plan, codec=codec), batch, recurrent=True)


@given(
    stacking=chosen(any_stacking),
    named=st.booleans(),
    recurrent=st.booleans(),
    n_envs=st.integers(1, 3),
    codec=st.sampled_from(CODECS),
)
@examples(20)
def test_stacked_rollouts_too(stacking: Stacking, named: bool, recurrent: bool, n_envs: int, codec: str) -> None:
    plan = stack_plan(stacking, named=named, n_envs=n_envs, steps=70)
    compared(plan, (recurrent_pair if recurrent else pair)(plan, codec=codec), 16, recurrent=recurrent)


@pytest.mark.parametrize("layout", list(LAYOUTS))
def test_declared_stacks_in_long_rollouts(layout: str) -> None:
    stacking = Stacking(layout=layout)
    plan = stack_plan(stacking, steps=600)
    compared(plan, pair(plan, stack=stacking.frames, stack_axis=stacking.axis), 128, recurrent=False)


def test_batches_kept_stay_what_they_were() -> None:
    plan = stack_plan(Stacking(layout="channels first"), steps=100)
    buffers = pair(plan)
    kept: list[list[Any]] = [[], []]
    steps = list(replace(plan, steps=200).play())
    for number in range(2):
        collect(plan, steps[number * 100 : number * 100 + 100], buffers, recurrent=False, seed=number)
        for which, buffer in enumerate(buffers):
            kept[which] += read(buffer, 32, number)
    for mine, other in zip(*kept, strict=True):
        assert_same(mine, other)


def test_an_unfinished_rollout_is_refused() -> None:
    plan = stack_plan(Stacking(layout="window"), steps=10)
    ours, _ = pair(plan)
    with pytest.raises(AssertionError):
        next(iter(ours.get(4)))


def test_a_rollout_left_halfway_is_forgotten() -> None:
    plan = stack_plan(Stacking(layout="channels last"), steps=40)
    ours, theirs = pair(plan)
    for step in list(plan.play())[:13]:
        obs, _, action, reward, _, _ = step.given()
        ours.add(obs, action, reward, step.done, th.zeros(2, 1), th.zeros(2))
    compared(plan, (ours, theirs), 16, recurrent=False)
