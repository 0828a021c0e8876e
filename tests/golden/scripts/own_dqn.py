"""A DQN loop as CleanRL writes it, on frames that stand for a game's."""

import argparse

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--total-timesteps", type=int, default=10_000_000)
parser.add_argument("--buffer-size", type=int, default=1_000_000)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--learning-starts", type=int, default=200)


class Frames(gym.Env):
    observation_space = gym.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.at += 1
        return self.observation_space.sample(), 1.0, False, self.at >= 200, {}


def network():
    body = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Flatten())
    return nn.Sequential(body, nn.Linear(64 * 9 * 9, 128), nn.ReLU(), nn.Linear(128, 4))


if __name__ == "__main__":
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    env = Frames()
    q_network, target_network = network().to(device), network().to(device)
    optimizer = torch.optim.Adam(q_network.parameters(), lr=1e-4)
    rb = ReplayBuffer(
        args.buffer_size,
        env.observation_space,
        env.action_space,
        device,
        optimize_memory_usage=False,
        handle_timeout_termination=False,
    )
    obs, _ = env.reset(seed=1)
    for global_step in range(args.total_timesteps):
        action = env.action_space.sample()
        next_obs, reward, terminated, truncated, info = env.step(action)
        rb.add(obs, next_obs, np.array(action), np.array(reward), np.array(terminated), [info])
        obs = env.reset()[0] if terminated or truncated else next_obs
        if global_step > args.learning_starts and global_step % 4 == 0:
            data = rb.sample(args.batch_size)
            with torch.no_grad():
                best = target_network(data.next_observations.float() / 255.0).max(dim=1).values
                wanted = data.rewards.flatten() + 0.99 * best * (1 - data.dones.flatten())
            chosen = q_network(data.observations.float() / 255.0).gather(1, data.actions).squeeze()
            loss = nn.functional.mse_loss(wanted, chosen)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
