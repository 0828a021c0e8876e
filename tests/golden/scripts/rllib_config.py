"""RLlib configurations."""

from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig

ppo = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=4, num_envs_per_env_runner=2)
    .learners(num_learners=1)
    .training(train_batch_size_per_learner=8_000, minibatch_size=500, num_epochs=4)
)
dqn = DQNConfig().environment("CartPole-v1").training(replay_buffer_config={"capacity": 500_000})
