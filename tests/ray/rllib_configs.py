"""RLlib configurations for tests: one as a user writes it, and ones that cannot be planned."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

ppo = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=1)
    .training(train_batch_size_per_learner=500, minibatch_size=100, num_epochs=1)
)
dqn = DQNConfig().environment("CartPole-v1").training(replay_buffer_config={"capacity": 5_000})
impala = (
    IMPALAConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=3)
    .learners(num_learners=2, num_aggregator_actors_per_learner=1)
    .evaluation(evaluation_interval=1, evaluation_num_env_runners=1)
)
recurrent = ppo.copy(copy_frozen=False).rl_module(model_config=DefaultModelConfig(use_lstm=True))
apart = ppo.copy(copy_frozen=False).env_runners(
    num_envs_per_env_runner=3, gym_env_vectorize_mode=gym.VectorizeMode.ASYNC
)
flat = (
    PPOConfig()
    .environment("Taxi-v3")
    .env_runners(env_to_module_connector=lambda env, spaces=None, device=None: FlattenObservations())
)
evaluated = ppo.copy(copy_frozen=False).evaluation(
    evaluation_interval=1, evaluation_duration=6, evaluation_config={"num_envs_per_env_runner": 5}
)
uneven = ppo.copy(copy_frozen=False).env_runners(rollout_fragment_length=300)
gpu = PPOConfig().environment("CartPole-v1").learners(num_learners=1, num_gpus_per_learner=1)
old = PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
homeless = PPOConfig()
number = 3


class Pictures(gym.Env):
    """Bytes that RLlib's default networks do not take: every EnvRunner fails, and RLlib goes on without them."""

    observation_space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config=None):
        """RLlib gives every environment a configuration."""

    def reset(self, *, seed=None, options=None):
        """A new picture."""
        return self.observation_space.sample(), {}

    def step(self, action):
        """Another one."""
        return self.observation_space.sample(), 0.0, False, False, {}


failing = PPOConfig().environment(Pictures).env_runners(num_env_runners=1)


def made():
    """Configurations may be made by a function."""
    return ppo


def broken():
    """Users' code fails as it likes."""
    raise RuntimeError("no such thing: ümlaut")
