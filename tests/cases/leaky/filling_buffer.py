"""No leak: a replay buffer allocated whole, whose pages become resident as it fills."""

import time

import numpy as np


class ReplayBuffer:
    def __init__(self, capacity):
        self.capacity, self.size = capacity, 0
        self.observations = np.zeros((capacity, 1024), np.float32)

    def add(self, observation):
        self.observations[self.size % self.capacity] = observation
        self.size = min(self.size + 1, self.capacity)


buffer = ReplayBuffer(60_000)
observation = np.ones(1024, np.float32)
print("ready", flush=True)
while True:
    for _ in range(6):
        buffer.add(observation)
    time.sleep(0.01)
