"""No leak: DQN, whose replay buffer fills for a long time."""

import time

import gymnasium as gym
import torch
from stable_baselines3 import DQN

torch.set_num_threads(1)


class Slow(gym.Wrapper):
    """Steps as a simulator would, so that other programs beside this one get their turn."""

    def step(self, action):
        time.sleep(0.004)
        return super().step(action)


model = DQN("MlpPolicy", Slow(gym.make("CartPole-v1")), buffer_size=400_000, learning_starts=100, batch_size=8)
model.learn(200)
print("ready", flush=True)
model.learn(10_000_000, reset_num_timesteps=False)
