"""DQN of Stable-Baselines3 on stacked frames: a million rows are more than the machine has."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN


class Frames(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        self.frames = np.zeros((4, 84, 84), np.uint8)
        return self.frames.copy(), {}

    def step(self, action):
        self.at += 1
        self.frames = np.roll(self.frames, -1, axis=0)
        self.frames[-1, self.at % 84] = 255
        return self.frames.copy(), 1.0, False, self.at >= 200, {}


if __name__ == "__main__":
    model = DQN(
        "CnnPolicy",
        Frames(),
        buffer_size=1_000_000,  # as papers have it
        learning_starts=1_000,
    )
    model.learn(10_000_000)
