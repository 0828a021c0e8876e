"""A script that raises before there is a model."""

import gymnasium as gym

env = gym.make("Pendulum-v1")
buffer_size = int("a million")
