"""Leaks: a callback a rollout is registered and never removed; each closes over the rollout's observations."""

import time

import numpy as np


class Hooks:
    def __init__(self):
        self.callbacks = []

    def register(self, callback):
        self.callbacks.append(callback)


def make(observations):
    return lambda: observations.mean() > 0


hooks = Hooks()
print("ready", flush=True)
rollout = 0
while True:
    hooks.register(make(np.full((64, 64), rollout, np.float32)))
    rollout += 1
    time.sleep(0.01)
