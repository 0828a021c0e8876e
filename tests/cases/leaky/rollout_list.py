"""No leak: a rollout is collected in a list of tuples, used, and thrown away."""

import time

import numpy as np


class Agent:
    def __init__(self):
        self.trajectory = []

    def collect(self, steps):
        for step in range(steps):
            self.trajectory.append((np.full(512, step, np.float32), float(step), False))
            if step % 16 == 0:
                time.sleep(0.01)

    def update(self):
        total = sum(reward for _, reward, _ in self.trajectory)
        self.trajectory = []
        return total


agent = Agent()
print("ready", flush=True)
while True:
    agent.collect(3_000)
    agent.update()
