"""The drones in numpy, to read and to hold the fast ones against.

Stand-alone: numpy only, so that a program in another environment can load this file by its path.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any
#: A control step of 0.1 s is ten substeps, each with three accelerations and three rates.
SUBSTEPS, SAMPLE, TARGETS = 10, 6, 4
DT = np.float32(0.01)
GRAVITY = 9.81
START = (0, 0, 10)
#: What is drawn at a reset, in this order.
RANGES = (("mass", 0.5, 1.5), ("drag", 0.05, 0.15), ("thrust", 0.8, 1.2))


class Drones:
    """N drones, an array a quantity. ``targets`` [N, 4] may lie in an array of the caller's, such as the observations."""

    def __init__(self, agents: int, targets: Array | None = None) -> None:
        self.pos, self.vel, self.ang, self.rates = (np.zeros((agents, 3), np.float32) for _ in range(4))
        self.mass, self.drag, self.thrust, self.reward = (np.zeros(agents, np.float32) for _ in range(4))
        self.targets = np.zeros((agents, TARGETS), np.float32) if targets is None else targets

    def reset(self, rng: np.random.Generator) -> None:
        """Everybody back to the start, with a new body and a new command."""
        for array in (self.vel, self.ang, self.rates, self.targets):
            array[:] = 0
        self.pos[:] = START
        agents = len(self.pos)
        for name, low, high in RANGES:
            getattr(self, name)[:] = rng.uniform(low, high, agents)
        pick = rng.integers(0, 10, agents)  # 0, 1: hover; 2..9: ±1 on vx, vy, vz, yaw rate
        rows = np.nonzero(pick >= 2)[0]
        self.targets[rows, (pick[rows] - 2) // 2] = 1 - 2 * ((pick[rows] - 2) % 2)

    def step(self, actions: Array) -> tuple[Array, Array]:
        """Fly the actions [N, 4] for ten substeps: the IMU samples [N, 10, 6] and the rewards [N]."""
        samples = np.empty((len(self.pos), SUBSTEPS, SAMPLE), np.float32)
        self.rates[:] = actions[:, 1:4]
        for k in range(SUBSTEPS):
            self.ang += self.rates * DT
            rot = self.rotation()
            push = actions[:, :1] * 20 * self.thrust[:, None] / self.mass[:, None]
            acc = rot[:, :, 2] * push - self.drag[:, None] * self.vel
            samples[:, k, :3] = np.einsum("nji,nj->ni", rot, acc)
            samples[:, k, 3:] = self.rates
            acc[:, 2] -= GRAVITY
            self.vel += acc * DT
            self.pos += self.vel * DT
            ground = 5 * np.sin(0.1 * self.pos[:, 0]) * np.cos(0.1 * self.pos[:, 1])
            hit = self.pos[:, 2] < ground
            self.pos[hit, 2] = ground[hit]
            self.vel[hit] = 0
        body = np.einsum("nji,nj->ni", rot, self.vel)
        roll, pitch = self.ang[:, 0], self.ang[:, 1]
        self.reward[:] = (
            np.exp(-2 * ((body - self.targets[:, :3]) ** 2).sum(1))
            + 0.5 * np.exp(-2 * (self.rates[:, 2] - self.targets[:, 3]) ** 2)
            - 0.01 * (roll**2 + pitch**2)
            - 0.1 * ((abs(roll) > 1) | (abs(pitch) > 1))
            + 0.1
        )
        return samples, self.reward

    def rotation(self) -> Array:
        """From body to world, [N, 3, 3]: yaw after pitch after roll."""
        (cr, cp, cy), (sr, sp, sy) = np.cos(self.ang.T), np.sin(self.ang.T)
        rows = [
            np.stack([cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr], -1),
            np.stack([sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr], -1),
            np.stack([-sp, cp * sr, cp * cr], -1),
        ]
        return np.stack(rows, 1).astype(np.float32)
