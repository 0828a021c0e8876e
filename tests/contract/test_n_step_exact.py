"""N-step returns against NStepReplayBuffer, and over Dict against the same buffer holding the transitions' numbers."""

from __future__ import annotations

import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.buffers import NStepReplayBuffer

from contract.compare import add, assert_same_sample
from contract.references import NumberedNStep, normalizer
from contract.strategies import CODECS, Plan, examples, named, plain, plans
from rlmem.sb3 import CompactReplayBuffer

#: Any floats come along, and what they come to when normalised is not our business.
pytestmark = [pytest.mark.truth, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

gammas = st.sampled_from((0.99, 1.0, 0.5, 0.0))


@given(
    plan=plans(space=plain), n_steps=st.integers(2, 12), gamma=gammas, codec=st.sampled_from(CODECS), norm=st.booleans()
)
@examples(40)
def test_n_step_samples_are_those_of_sb3(plan: Plan, n_steps: int, gamma: float, codec: str, norm: bool) -> None:
    ours = CompactReplayBuffer(**plan.common, n_steps=n_steps, gamma=gamma, codec=codec)
    theirs = NStepReplayBuffer(**plan.common, n_steps=n_steps, gamma=gamma)
    env, looks = normalizer(plan) if norm else None, plan.looks
    for number, step in enumerate(plan.play()):
        add(step, ours, theirs)
        if number in looks:
            assert_same_sample(ours, theirs, 1 + (number * 7) % 40, seed=number, env=env)


@given(
    plan=plans(space=named), n_steps=st.integers(2, 9), gamma=gammas, codec=st.sampled_from(CODECS), norm=st.booleans()
)
@examples(25)
def test_n_step_works_over_dict(plan: Plan, n_steps: int, gamma: float, codec: str, norm: bool) -> None:
    assert isinstance(plan.observation_space, spaces.Dict)
    ours = CompactReplayBuffer(**plan.common, n_steps=n_steps, gamma=gamma, codec=codec)
    theirs = NumberedNStep(plan, n_steps=n_steps, gamma=gamma)
    env, looks = normalizer(plan) if norm else None, plan.looks
    for number, step in enumerate(plan.play()):
        add(step, ours, theirs)
        if number in looks:
            assert_same_sample(ours, theirs, 1 + (number * 7) % 40, seed=number, env=env)
