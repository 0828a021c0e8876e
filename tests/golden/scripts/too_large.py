"""A loop of one's own with a memory that no machine has."""

import numpy as np
import torch
from torch import nn

CAPACITY = 400_000_000


class Memory:
    def __init__(self, size):
        self.obs = np.zeros((size, 512), dtype=np.float32)
        self.rewards = np.zeros(size, dtype=np.float32)
        self.size, self.at = size, 0

    def add(self, obs, reward):
        self.obs[self.at], self.rewards[self.at] = obs, reward
        self.at = (self.at + 1) % self.size

    def sample(self, count):
        rows = np.random.randint(0, max(self.at, 1), count)
        return torch.as_tensor(self.obs[rows]), torch.as_tensor(self.rewards[rows])


memory = Memory(CAPACITY)
net = nn.Sequential(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.Adam(net.parameters())
for step in range(1_000_000_000):
    memory.add(np.random.rand(512).astype(np.float32), 1.0)
    if step > 100 and step % 4 == 0:
        obs, rewards = memory.sample(64)
        loss = (net(obs).squeeze(-1) - rewards).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
