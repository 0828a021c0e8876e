"""Environments small enough to train on in seconds, with terminations and truncations."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class TinyPoint(gym.Env[Any, Any]):
    """A point pushed about; it ends far out, and is cut off by a limit of steps."""

    def __init__(self, *, discrete: bool = False, limit: int = 40) -> None:
        self.observation_space: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = spaces.Discrete(4) if discrete else spaces.Box(-1, 1, (2,), np.float32)
        self.discrete, self.limit = discrete, limit
        self.point, self.speed, self.steps = np.zeros(2), np.zeros(2), 0

    def _seen(self) -> Any:
        return np.concatenate([self.point, self.speed]).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.point, self.speed, self.steps = self.np_random.normal(size=2), np.zeros(2), 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        push = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)][int(action)]) if self.discrete else np.asarray(action)
        self.speed = 0.8 * self.speed + 0.3 * push
        self.point = self.point + self.speed
        self.steps += 1
        far = float(np.abs(self.point).max())
        return self._seen(), -far, far > 4, self.steps >= self.limit, {}


class TinyCamera(TinyPoint):
    """The point as an image, its speed as a vector, and an image that stays black."""

    SIDE = 36

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        image = spaces.Box(0, 255, (1, self.SIDE, self.SIDE), np.uint8)
        vector = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = spaces.Dict({"camera": image, "speed": vector, "unused": image})

    def _picture(self) -> np.ndarray:
        picture = np.zeros((1, self.SIDE, self.SIDE), np.uint8)
        row, column = np.clip((self.point * 3 + self.SIDE / 2).astype(int), 0, self.SIDE - 4)
        picture[0, row : row + 4, column : column + 4] = 200
        return picture

    def _seen(self) -> Any:
        black = np.zeros((1, self.SIDE, self.SIDE), np.uint8)
        return {"camera": self._picture(), "speed": self.speed.astype(np.float32), "unused": black}


class TinyImage(TinyCamera):
    """Only the image, channels last, with four buttons."""

    def __init__(self, *, seed: int | None = None) -> None:
        super().__init__(discrete=True, limit=25)
        self.observation_space = spaces.Box(0, 255, (self.SIDE, self.SIDE, 1), np.uint8)
        if seed is not None:
            self.np_random = np.random.default_rng(seed)

    def _seen(self) -> Any:
        return self._picture().transpose(1, 2, 0)
