"""RLlib configurations that are planned and measured by role, as users write them: algorithms, sizes, roles, environments."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.connectors.env_to_module.flatten_observations import FlattenObservations
from ray.rllib.connectors.env_to_module.frame_stacking import FrameStackingEnvToModule
from ray.rllib.connectors.learner.frame_stacking import FrameStackingLearner
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack
from ray.tune.registry import register_env


def _atari(game, stack):
    def make(config):
        import ale_py

        gym.register_envs(ale_py)
        return wrap_atari_for_new_api_stack(gym.make(f"ale_py:ALE/{game}-v5", frameskip=1), framestack=stack)

    return make


register_env("pong-stacked", _atari("Pong", 4))
register_env("pong-frames", _atari("Pong", None))
register_env("breakout-stacked", _atari("Breakout", 4))
register_env("seaquest-stacked", _atari("Seaquest", 4))


class Camera(gym.Env):
    """Pictures of floats, and two motors."""

    observation_space = gym.spaces.Box(0, 1, (64, 64, 3), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, config=None):
        """RLlib gives every environment a configuration."""
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        """Begin anew."""
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        """An episode has 200 steps."""
        self.steps += 1
        return self.observation_space.sample(), 1.0, False, self.steps >= 200, {}


class Mixed(Camera):
    """A Dict of numbers and a choice."""

    observation_space = gym.spaces.Dict(
        {
            "joints": gym.spaces.Box(-1, 1, (32,), np.float32),
            "mode": gym.spaces.Discrete(7),
            "targets": gym.spaces.Box(-1, 1, (4, 5), np.float32),
        }
    )
    action_space = gym.spaces.Discrete(5)


ppo_cartpole = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
ppo_local = PPOConfig().environment("Acrobot-v1").env_runners(num_env_runners=0)
ppo_cheetah = (
    PPOConfig()
    .environment("HalfCheetah-v5")
    .env_runners(num_env_runners=3, num_envs_per_env_runner=4)
    .training(train_batch_size_per_learner=16000, minibatch_size=4096, num_epochs=4)
)
ppo_humanoid_learner = (
    PPOConfig()
    .environment("Humanoid-v5")
    .env_runners(num_env_runners=2)
    .learners(num_learners=1)
    .training(train_batch_size_per_learner=8000, minibatch_size=512, num_epochs=2)
)
ppo_two_learners = (
    PPOConfig()
    .environment("Humanoid-v5")
    .env_runners(num_env_runners=2)
    .learners(num_learners=2)
    .training(train_batch_size_per_learner=4000, minibatch_size=512, num_epochs=2)
)
ppo_pong_stacked = (
    PPOConfig()
    .environment("pong-stacked")
    .env_runners(num_env_runners=2)
    .training(train_batch_size_per_learner=1000, minibatch_size=64, num_epochs=1)
)
ppo_pong_frames = (
    PPOConfig()
    .environment("pong-frames")
    .env_runners(
        num_env_runners=2,
        env_to_module_connector=lambda env, spaces=None, device=None: FrameStackingEnvToModule(num_frames=4),
    )
    .training(
        train_batch_size_per_learner=1000,
        minibatch_size=64,
        num_epochs=1,
        learner_connector=lambda input_observation_space, input_action_space: FrameStackingLearner(num_frames=4),
    )
)
ppo_evaluated = (
    PPOConfig()
    .environment("Hopper-v5")
    .env_runners(num_env_runners=2)
    .evaluation(evaluation_interval=1, evaluation_num_env_runners=1, evaluation_duration=4)
    .training(train_batch_size_per_learner=4000, minibatch_size=256, num_epochs=2)
)
dqn_cartpole = (
    DQNConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=1, rollout_fragment_length=50)
    .training(
        replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer", "capacity": 20_000}, training_intensity=1.0
    )
)
dqn_pong = (
    DQNConfig()
    .environment("pong-stacked")
    .env_runners(num_env_runners=2, rollout_fragment_length=20)
    .training(
        replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 4_000},
        training_intensity=0.5,
        num_steps_sampled_before_learning_starts=500,
    )
)
sac_pendulum = (
    SACConfig()
    .environment("Pendulum-v1")
    .env_runners(num_env_runners=1, rollout_fragment_length=20)
    .training(
        replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer", "capacity": 10_000}, training_intensity=8.0
    )
)
sac_humanoid = (
    SACConfig()
    .environment("Humanoid-v5")
    .env_runners(num_env_runners=2, rollout_fragment_length=50)
    .training(replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 30_000}, training_intensity=4.0)
)
impala_cartpole = IMPALAConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
impala_pong = (
    IMPALAConfig()
    .environment("pong-stacked")
    .env_runners(num_env_runners=2)
    .learners(num_learners=1)
    .training(train_batch_size_per_learner=500)
)
impala_aggregated = (
    IMPALAConfig()
    .environment("Humanoid-v5")
    .env_runners(num_env_runners=3, num_envs_per_env_runner=2)
    .learners(num_learners=1, num_aggregator_actors_per_learner=1)
    .training(train_batch_size_per_learner=4000)
)
appo_cartpole = APPOConfig().environment("CartPole-v1").env_runners(num_env_runners=2)
appo_humanoid = (
    APPOConfig()
    .environment("Humanoid-v5")
    .env_runners(num_env_runners=2, num_envs_per_env_runner=2)
    .learners(num_learners=1)
    .training(train_batch_size_per_learner=2000)
)

# Written after the model and its constants: nothing was fitted to these.
held_ppo_wide = (
    PPOConfig()
    .environment("Walker2d-v5")
    .env_runners(num_env_runners=2, num_envs_per_env_runner=8)
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[1024, 1024]))
    .training(train_batch_size_per_learner=12000, minibatch_size=2000, num_epochs=2)
)
held_ppo_pong_learner = (
    PPOConfig()
    .environment("pong-stacked")
    .env_runners(num_env_runners=3, num_envs_per_env_runner=2)
    .learners(num_learners=1)
    .evaluation(evaluation_interval=2, evaluation_num_env_runners=1, evaluation_duration=1)
    .training(train_batch_size_per_learner=1800, minibatch_size=300, num_epochs=2)
)
held_dqn_car = (
    DQNConfig()
    .environment("MountainCar-v0")
    .env_runners(num_env_runners=3, rollout_fragment_length=40)
    .learners(num_learners=1)
    .training(
        replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer", "capacity": 40_000}, training_intensity=1.0
    )
)
held_sac_ant = (
    SACConfig()
    .environment("Ant-v5")
    .env_runners(num_env_runners=1, num_envs_per_env_runner=2, rollout_fragment_length=50)
    .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[512, 512]))
    .training(replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 25_000}, training_intensity=4.0)
)
held_impala_two_learners = (
    IMPALAConfig()
    .environment("HalfCheetah-v5")
    .env_runners(num_env_runners=4)
    .learners(num_learners=2)
    .training(train_batch_size_per_learner=1000)
)
held_appo_pong = (
    APPOConfig()
    .environment("pong-stacked")
    .env_runners(num_env_runners=3)
    .learners(num_learners=1, num_aggregator_actors_per_learner=2)
    .training(train_batch_size_per_learner=400)
)

# Written later still. Those that are not "held" showed that recurrent modules, environments in processes, evaluation and learners
# with aggregators were planned wrongly.
ppo_lstm = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=2)
    .rl_module(model_config=DefaultModelConfig(use_lstm=True, max_seq_len=20))
    .training(train_batch_size_per_learner=4000, minibatch_size=512, num_epochs=2)
)
ppo_async_envs = (
    PPOConfig()
    .environment("Hopper-v5")
    .env_runners(num_env_runners=2, num_envs_per_env_runner=4, gym_env_vectorize_mode=gym.VectorizeMode.ASYNC)
    .training(train_batch_size_per_learner=4000, minibatch_size=512, num_epochs=2)
)
ppo_breakout_evaluated = (
    PPOConfig()
    .environment("breakout-stacked")
    .env_runners(num_env_runners=2, num_envs_per_env_runner=2)
    .evaluation(evaluation_interval=1, evaluation_num_env_runners=2, evaluation_duration=2)
    .training(train_batch_size_per_learner=800, minibatch_size=200, num_epochs=2)
)
held_ppo_camera = (
    PPOConfig()
    .environment(Camera)
    .env_runners(num_env_runners=2, num_envs_per_env_runner=2)
    .training(train_batch_size_per_learner=2000, minibatch_size=200, num_epochs=2)
)
held_ppo_mixed = (
    PPOConfig()
    .environment(Mixed)
    .env_runners(num_env_runners=2, env_to_module_connector=lambda env, spaces=None, device=None: FlattenObservations())
    .training(train_batch_size_per_learner=4000, minibatch_size=400, num_epochs=2)
)
held_ppo_whole_episodes = (
    PPOConfig()
    .environment("Pendulum-v1")
    .env_runners(num_env_runners=2, batch_mode="complete_episodes")
    .training(train_batch_size_per_learner=6000, minibatch_size=600, num_epochs=2)
)
held_dqn_seaquest = (
    DQNConfig()
    .environment("seaquest-stacked")
    .env_runners(num_env_runners=1, rollout_fragment_length=32)
    .training(
        replay_buffer_config={"type": "PrioritizedEpisodeReplayBuffer", "capacity": 6_000},
        training_intensity=0.5,
        num_steps_sampled_before_learning_starts=500,
    )
)
held_sac_learner = (
    SACConfig()
    .environment("Hopper-v5")
    .env_runners(num_env_runners=2, rollout_fragment_length=25)
    .learners(num_learners=1)
    .training(replay_buffer_config={"type": "EpisodeReplayBuffer", "capacity": 20_000}, training_intensity=8.0)
)
impala_breakout = (
    IMPALAConfig()
    .environment("breakout-stacked")
    .env_runners(num_env_runners=3, num_envs_per_env_runner=2)
    .learners(num_learners=1, num_aggregator_actors_per_learner=1)
    .training(train_batch_size_per_learner=600)
)
held_appo_two_learners = (
    APPOConfig()
    .environment("Walker2d-v5")
    .env_runners(num_env_runners=3)
    .learners(num_learners=2)
    .training(train_batch_size_per_learner=1000)
)
