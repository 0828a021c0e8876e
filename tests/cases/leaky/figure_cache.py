"""Leaks: figures are drawn into a table by name, as pyplot does, and never closed."""

import time

import numpy as np


class Figure:
    def __init__(self, name, points):
        self.name, self.points = name, points
        self.canvas = np.full((160, 160, 4), 255, np.uint8)


class Plots:
    def __init__(self):
        self.figures = {}

    def draw(self, name):
        self.figures[name] = Figure(name, np.random.default_rng(0).random(500))


plots = Plots()
print("ready", flush=True)
episode = 0
while True:
    plots.draw(f"episode {episode}")
    episode += 1
    time.sleep(0.03)
