"""RLlib configurations for tests: one as a user writes it, and ones that cannot be planned."""

from __future__ import annotations

from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig

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
gpu = PPOConfig().environment("CartPole-v1").learners(num_learners=1, num_gpus_per_learner=1)
old = PPOConfig().api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False)
homeless = PPOConfig()
number = 3


def made():
    """Configurations may be made by a function."""
    return ppo


def broken():
    """Users' code fails as it likes."""
    raise RuntimeError("no such thing: ümlaut")
