"""A file of one of SB3's own buffers, loaded into a model with a compact one: converted, row by row, and said so."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from stable_baselines3 import PPO, SAC, HerReplayBuffer
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.envs import BitFlippingEnv

from contract.compare import assert_same_rows, assert_same_sample
from contract.envs import TinyPoint
from rlmem.sb3 import CompactHerReplayBuffer, CompactReplayBuffer, CompactRolloutBuffer

pytestmark = pytest.mark.truth


def model(buffer_class: Any = None, env: Any = None, **options: Any) -> SAC:
    env = env or TinyPoint()
    kind = "MultiInputPolicy" if isinstance(env, BitFlippingEnv) else "MlpPolicy"
    small: dict[str, Any] = {"policy_kwargs": {"net_arch": [8]}, "learning_starts": 20, "seed": 1, "device": "cpu"}
    return SAC(kind, env, replay_buffer_class=buffer_class, buffer_size=100, **small, **options)


def saved(plain: SAC, steps: int, folder: Path) -> Path:
    plain.learn(steps)
    path = folder / "buffer.pkl"
    plain.save_replay_buffer(path)
    return path


@pytest.mark.parametrize("steps", [60, 170], ids=["not full", "written over"])
@pytest.mark.parametrize("options", [{}, {"n_steps": 3}], ids=["plain", "n-step"])
def test_its_rows_stay_in_their_places(steps: int, options: dict[str, Any], tmp_path: Path) -> None:
    plain = model(**options)
    path = saved(plain, steps, tmp_path)
    given = {"replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.99}} if options else {}
    compact = model(CompactReplayBuffer, **given)
    with pytest.warns(UserWarning, match=r"buffer.pkl holds a \w*ReplayBuffer of .* copied into a CompactReplayBuffer"):
        compact.load_replay_buffer(path)
    assert type(compact.replay_buffer) is CompactReplayBuffer
    assert_same_rows(compact.replay_buffer, plain.replay_buffer)
    assert_same_sample(compact.replay_buffer, plain.replay_buffer, 40)
    for each in (compact, plain):  # both go on from the same row
        each.set_random_seed(3)
        each.action_space.seed(3)
        each.collect_rollouts(each.env, *_collecting(each))
    assert compact.replay_buffer.pos == plain.replay_buffer.pos


def _collecting(learner: SAC) -> tuple[Any, ...]:
    _, callback = learner._setup_learn(10)
    return callback, learner.train_freq, learner.replay_buffer


def test_the_row_that_is_half_overwritten_is_left_out(tmp_path: Path) -> None:
    options = {"optimize_memory_usage": True, "replay_buffer_kwargs": {"handle_timeout_termination": False}}
    plain = model(ReplayBuffer, **options)
    path = saved(plain, 170, tmp_path)
    compact = model(CompactReplayBuffer)
    with pytest.warns(UserWarning, match="copied into"):
        compact.load_replay_buffer(path)
    ours, theirs = compact.replay_buffer, plain.replay_buffer
    assert (ours.pos, ours.full) == (99, False)
    oldest = (theirs.pos + 1) % 100
    assert (ours.observations[0] == theirs.observations[oldest]).all()
    assert (ours.next_observations[98] == theirs.observations[theirs.pos]).all()
    assert (ours.rewards[:99, 0] == [theirs.rewards[(oldest + row) % 100, 0] for row in range(99)]).all()


def test_episodes_of_hindsight_are_taken_over(tmp_path: Path) -> None:
    def world() -> BitFlippingEnv:
        return BitFlippingEnv(n_bits=4, continuous=True)

    plain = model(HerReplayBuffer, world())
    path = saved(plain, 170, tmp_path)
    compact = model(CompactHerReplayBuffer, world())
    with pytest.warns(UserWarning, match="copied into a CompactHerReplayBuffer"):
        compact.load_replay_buffer(path, truncate_last_traj=False)
    assert_same_sample(compact.replay_buffer, plain.replay_buffer, 40)
    compact.learn(60)


def test_what_cannot_be_converted_is_said(tmp_path: Path) -> None:
    from stable_baselines3.common.buffers import DictReplayBuffer

    world = BitFlippingEnv(n_bits=4, continuous=True)
    path = saved(model(DictReplayBuffer, world), 60, tmp_path)
    compact = model(CompactHerReplayBuffer, BitFlippingEnv(n_bits=4, continuous=True))
    with pytest.warns(UserWarning, match="in place of its CompactHerReplayBuffer.*episodes"):
        compact.load_replay_buffer(path)
    assert type(compact.replay_buffer) is DictReplayBuffer


def test_nothing_is_said_of_models_that_asked_for_no_compact_buffer(tmp_path: Path) -> None:
    CompactReplayBuffer(10, TinyPoint().observation_space, TinyPoint().action_space)  # another one, elsewhere
    path = saved(model(), 30, tmp_path)
    other = model()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other.load_replay_buffer(path)
    assert type(other.replay_buffer) is ReplayBuffer


def test_buffers_say_how_full_they_are() -> None:
    compact = model(CompactReplayBuffer)
    assert repr(compact.replay_buffer).startswith("<CompactReplayBuffer of 0 of 100 transitions (0 %), ")
    compact.learn(30)
    said = repr(compact.replay_buffer)
    assert said.startswith("<CompactReplayBuffer of 30 of 100 transitions (30 %), ")
    assert said.endswith(f", {compact.replay_buffer.bytes_per_transition:,.0f} B a transition>")
    ppo = PPO("MlpPolicy", TinyPoint(), n_steps=64, rollout_buffer_class=CompactRolloutBuffer, device="cpu")
    ppo.learn(64)
    assert repr(ppo.rollout_buffer).startswith("<CompactRolloutBuffer of 64 of 64 transitions (100 %), ")
