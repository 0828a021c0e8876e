"""PPO of Stable-Baselines3 whose environment cannot be stepped: what it would need is known all the same."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO


class Broken(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (200,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (4,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(200, np.float32), {}

    def step(self, action):
        raise RuntimeError("the simulator is not running")


PPO("MlpPolicy", Broken(), n_steps=4096).learn(1_000_000)
