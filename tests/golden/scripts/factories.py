"""A function that returns a model, as 'factories:make_model'."""

from stable_baselines3 import TD3


def make_model(buffer_size="300000"):
    """A model that is to be trained by others."""
    return TD3("MlpPolicy", "Pendulum-v1", buffer_size=int(buffer_size))


def make_nothing():
    """No model."""
