"""A DQN of one's own on Breakout: a numpy replay buffer of a million rows, as papers describe it."""

import random

import ale_py
import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

gym.register_envs(ale_py)

TOTAL_STEPS = 5_000_000
MEMORY = 1_000_000
WARMUP = 10_000
BATCH = 32
GAMMA = 0.99
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


class ReplayMemory:
    def __init__(self, size, obs_shape):
        self.size = size
        self.obs = np.zeros((size, *obs_shape), dtype=np.uint8)
        self.next_obs = np.zeros((size, *obs_shape), dtype=np.uint8)
        self.actions = np.zeros(size, dtype=np.int64)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.dones = np.zeros(size, dtype=np.float32)
        self.pos = 0
        self.full = False

    def push(self, obs, action, reward, next_obs, done):
        self.obs[self.pos] = obs
        self.next_obs[self.pos] = next_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.dones[self.pos] = done
        self.pos += 1
        if self.pos == self.size:
            self.pos, self.full = 0, True

    def sample(self, batch_size):
        idx = np.random.randint(0, self.size if self.full else self.pos, batch_size)
        return (
            torch.as_tensor(self.obs[idx], device=DEVICE).float() / 255,
            torch.as_tensor(self.actions[idx], device=DEVICE),
            torch.as_tensor(self.rewards[idx], device=DEVICE),
            torch.as_tensor(self.next_obs[idx], device=DEVICE).float() / 255,
            torch.as_tensor(self.dones[idx], device=DEVICE),
        )


class QNet(nn.Module):
    def __init__(self, n_actions):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, n_actions))

    def forward(self, x):
        return self.head(self.conv(x))


def make_env():
    env = gym.make("ALE/Breakout-v5", frameskip=1)
    env = gym.wrappers.AtariPreprocessing(env)
    return gym.wrappers.FrameStackObservation(env, 4)


def main():
    env = make_env()
    n_actions = int(env.action_space.n)
    net, target = QNet(n_actions).to(DEVICE), QNet(n_actions).to(DEVICE)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    memory = ReplayMemory(MEMORY, env.observation_space.shape)

    obs, _ = env.reset(seed=0)
    for step in range(TOTAL_STEPS):
        eps = max(0.05, 1 - step / 1_000_000)
        if random.random() < eps:
            action = env.action_space.sample()
        else:
            with torch.no_grad():
                x = torch.as_tensor(np.asarray(obs), device=DEVICE).float().unsqueeze(0) / 255
                action = int(net(x).argmax())
        next_obs, reward, terminated, truncated, _ = env.step(action)
        memory.push(obs, action, np.sign(reward), next_obs, terminated)
        obs = next_obs
        if terminated or truncated:
            obs, _ = env.reset()

        if step >= WARMUP and step % 4 == 0:
            b_obs, b_act, b_rew, b_next, b_done = memory.sample(BATCH)
            with torch.no_grad():
                y = b_rew + GAMMA * target(b_next).max(1).values * (1 - b_done)
            q = net(b_obs).gather(1, b_act.unsqueeze(1)).squeeze(1)
            loss = F.smooth_l1_loss(q, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if step % 10_000 == 0:
            target.load_state_dict(net.state_dict())
    torch.save(net.state_dict(), "dqn_breakout.pt")


if __name__ == "__main__":
    main()
