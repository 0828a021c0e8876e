"""DQN of Stable-Baselines3 on Atari with a million rows: what the README plans and makes fit."""

import ale_py  # noqa: F401, registers the games
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

env = VecFrameStack(make_atari_env("PongNoFrameskip-v4"), 4)
model = DQN("CnnPolicy", env, buffer_size=1_000_000)
model.learn(10_000_000)
