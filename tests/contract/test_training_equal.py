"""Training with our buffers ends in the same parameters, to the bit, as training with SB3's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch as th
from sb3_contrib import RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC, TD3, HerReplayBuffer
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecNormalize

from contract.envs import TinyCamera, TinyImage, TinyPoint
from rlmem.sb3 import CompactHerReplayBuffer, CompactRecurrentRolloutBuffer, CompactReplayBuffer, CompactRolloutBuffer

pytestmark = pytest.mark.truth

Make = Callable[[dict[str, Any]], BaseAlgorithm]
COMMON: dict[str, Any] = {"seed": 3, "device": "cpu", "verbose": 0}
OFF_POLICY: dict[str, Any] = {**COMMON, "learning_starts": 100, "batch_size": 32, "train_freq": 4, "gradient_steps": 1}
CNN: dict[str, Any] = {"features_extractor_kwargs": {"features_dim": 16}}
COMBINED: dict[str, Any] = {"features_extractor_kwargs": {"cnn_output_dim": 16}}


def net(**more: Any) -> dict[str, Any]:
    """Small, and made anew: algorithms write into their policy_kwargs."""
    return {"net_arch": [16, 16], **copy.deepcopy(more)}


def sac(own: dict[str, Any]) -> BaseAlgorithm:
    return SAC("MlpPolicy", TinyPoint(), buffer_size=700, policy_kwargs=net(), **OFF_POLICY, **own)


def sac_normalised(own: dict[str, Any]) -> BaseAlgorithm:
    env = VecNormalize(make_vec_env(TinyPoint, n_envs=3))
    return SAC("MlpPolicy", env, buffer_size=701, policy_kwargs=net(), **OFF_POLICY, **own)


def sac_n_step(own: dict[str, Any]) -> BaseAlgorithm:
    steps = {"n_steps": 3} if "replay_buffer_class" not in own else {}
    return SAC(
        "MlpPolicy",
        make_vec_env(TinyPoint, n_envs=2),
        buffer_size=700,
        policy_kwargs=net(),
        **OFF_POLICY,
        **steps,
        **own,
    )


def sac_camera(own: dict[str, Any]) -> BaseAlgorithm:
    options = {**OFF_POLICY, "batch_size": 8, "train_freq": 6}
    return SAC(
        "MultiInputPolicy",
        make_vec_env(TinyCamera, n_envs=2),
        buffer_size=600,
        policy_kwargs=net(**COMBINED),
        **options,
        **own,
    )


def sac_hindsight(own: dict[str, Any]) -> BaseAlgorithm:
    own = own or {"replay_buffer_class": HerReplayBuffer}
    env = make_vec_env(lambda: BitFlippingEnv(n_bits=4, continuous=True), n_envs=2)
    return SAC("MultiInputPolicy", env, buffer_size=700, policy_kwargs=net(), **OFF_POLICY, **own)


def td3(own: dict[str, Any]) -> BaseAlgorithm:
    return TD3(
        "MlpPolicy", make_vec_env(TinyPoint, n_envs=2), buffer_size=700, policy_kwargs=net(), **OFF_POLICY, **own
    )


def dqn_stack(own: dict[str, Any]) -> BaseAlgorithm:
    env: VecEnv = VecFrameStack(DummyVecEnv([TinyImage] * 2), n_stack=4)
    options = {**OFF_POLICY, "batch_size": 16, "train_freq": 8, "target_update_interval": 100}
    return DQN("CnnPolicy", env, buffer_size=800, policy_kwargs=net(**CNN), **options, **own)


ON_POLICY: dict[str, Any] = {**COMMON, "n_steps": 128, "batch_size": 64, "n_epochs": 3}


def ppo(own: dict[str, Any]) -> BaseAlgorithm:
    return PPO("MlpPolicy", make_vec_env(TinyPoint, n_envs=2), policy_kwargs=net(), **ON_POLICY, **own)


def ppo_stack(own: dict[str, Any]) -> BaseAlgorithm:
    env: VecEnv = VecFrameStack(DummyVecEnv([TinyImage] * 2), n_stack=4)
    return PPO("CnnPolicy", env, policy_kwargs=net(**CNN), **ON_POLICY, **own)


def ppo_camera(own: dict[str, Any]) -> BaseAlgorithm:
    return PPO(
        "MultiInputPolicy", make_vec_env(TinyCamera, n_envs=2), policy_kwargs=net(**COMBINED), **ON_POLICY, **own
    )


def recurrent_ppo(own: dict[str, Any]) -> BaseAlgorithm:
    """It names its buffer class itself: ours is put in its place."""
    options = {**ON_POLICY, "n_steps": 64, "batch_size": 32}
    model = RecurrentPPO(
        "MlpLstmPolicy", make_vec_env(TinyPoint, n_envs=2), policy_kwargs=net(lstm_hidden_size=8), **options
    )
    if own:
        model.rollout_buffer = own["instead"](
            model.n_steps,
            model.observation_space,
            model.action_space,
            model.rollout_buffer.hidden_state_shape,
            model.device,
            gamma=model.gamma,
            gae_lambda=model.gae_lambda,
            n_envs=model.n_envs,
        )
    return model


REPLAY: dict[str, Any] = {"replay_buffer_class": CompactReplayBuffer}
ROLLOUT: dict[str, Any] = {"rollout_buffer_class": CompactRolloutBuffer}
N_STEP: dict[str, Any] = {**REPLAY, "replay_buffer_kwargs": {"n_steps": 3, "gamma": 0.99}}
#: What is trained, with what of ours, for how many steps.
CASES: dict[str, tuple[Make, dict[str, Any], int]] = {
    "SAC": (sac, REPLAY, 1000),
    "SAC, normalised": (sac_normalised, {**REPLAY, "replay_buffer_kwargs": {"codec": "zstd"}}, 1500),
    "SAC, n-step": (sac_n_step, N_STEP, 1200),
    "SAC, camera": (sac_camera, {**REPLAY, "replay_buffer_kwargs": {"codec": "auto"}}, 600),
    "SAC, hindsight": (sac_hindsight, {"replay_buffer_class": CompactHerReplayBuffer}, 1200),
    "TD3": (td3, {**REPLAY, "optimize_memory_usage": True}, 1500),
    "DQN, stack": (dqn_stack, {**REPLAY, "replay_buffer_kwargs": {"codec": "lz4"}}, 1200),
    "PPO": (ppo, ROLLOUT, 1500),
    "PPO, stack": (ppo_stack, ROLLOUT, 512),
    "PPO, camera": (ppo_camera, {**ROLLOUT, "rollout_buffer_kwargs": {"codec": "zstd"}}, 512),
    "RecurrentPPO": (recurrent_ppo, {"instead": CompactRecurrentRolloutBuffer}, 640),
}

#: Told apart by ``make long``; the others are of the same kinds.
LONG = ("SAC", "SAC, normalised", "TD3", "PPO", "PPO, stack")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """The order of sums must not depend on how many threads happen to be free."""
    before = th.get_num_threads()
    th.set_num_threads(1)
    yield
    th.set_num_threads(before)


def trained(make: Make, own: dict[str, Any], steps: int) -> dict[str, th.Tensor]:
    model = make(dict(own))
    model.learn(steps)
    assert model._n_updates > 5
    found = {}
    for name, state in model.get_parameters().items():
        values = state if isinstance(state, dict) else {}
        found |= {f"{name}.{key}": value for key, value in values.items() if isinstance(value, th.Tensor)}
    return found


@pytest.mark.parametrize("case", [pytest.param(case, marks=[pytest.mark.long] * (case in LONG)) for case in CASES])
def test_parameters_are_the_same_to_the_bit(case: str) -> None:
    make, own, steps = CASES[case]
    theirs, ours = trained(make, {}, steps), trained(make, own, steps)
    assert ours.keys() == theirs.keys() and len(theirs) > 4
    different = [name for name in theirs if not th.equal(ours[name], theirs[name])]
    assert not different
