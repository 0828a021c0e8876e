"""What the manual pages of rules claim about SB3, tried with SB3 itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.truth

UNGUARDED = """
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv
env = make_vec_env("CartPole-v1", n_envs=2, vec_env_cls=SubprocVecEnv{options})
env.reset()
env.close()
"""


@pytest.mark.long
@pytest.mark.parametrize(("name", "env"), [("SAC", "Pendulum-v1"), ("TD3", "Pendulum-v1"), ("DQN", "CartPole-v1")])
def test_a_model_loaded_with_a_buffer_of_one_row_predicts_the_same(name: str, env: str, tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    sb3: Any = pytest.importorskip("stable_baselines3")
    algorithm = getattr(sb3, name)
    trained = algorithm("MlpPolicy", env, buffer_size=5_000, learning_starts=50, seed=1, device="cpu")
    trained.learn(100)
    trained.save(tmp_path / "model")
    whole, small = algorithm.load(tmp_path / "model"), algorithm.load(tmp_path / "model", buffer_size=1)
    assert whole.replay_buffer.observations.shape[0] == 5_000
    assert small.replay_buffer.observations.shape[0] == 1
    seen = numpy.stack([trained.observation_space.sample() for _ in range(20)])
    assert numpy.array_equal(whole.predict(seen, deterministic=True)[0], small.predict(seen, deterministic=True)[0])


@pytest.mark.parametrize(("options", "works"), [("", False), (', vec_env_kwargs=dict(start_method="fork")', True)])
def test_workers_started_at_import_work_only_when_they_are_forked(options: str, works: bool, tmp_path: Path) -> None:
    pytest.importorskip("stable_baselines3")
    script = tmp_path / "train.py"
    script.write_text(UNGUARDED.format(options=options), encoding="utf-8")
    ended = subprocess.run([sys.executable, script], capture_output=True, timeout=100, check=False)
    assert (ended.returncode == 0) is works


def test_recurrent_states_are_stored_four_times_without_a_critic_lstm_too() -> None:
    contrib: Any = pytest.importorskip("sb3_contrib")
    options = {"enable_critic_lstm": False, "lstm_hidden_size": 32}
    model = contrib.RecurrentPPO("MlpLstmPolicy", "CartPole-v1", n_steps=16, policy_kwargs=options, device="cpu")
    model.learn(16)
    buffer = model.rollout_buffer
    arrays = [getattr(buffer, f"{part}_states_{head}") for head in ("pi", "vf") for part in ("hidden", "cell")]
    assert {array.nbytes for array in arrays} == {16 * 32 * 4}
    assert arrays[2].any()  # what the critic never reads is written all the same
