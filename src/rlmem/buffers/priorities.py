"""Proportional prioritised sampling: a sum tree, kept and searched by compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import float64, int64, void

from rlmem.buffers.codec import Ints
from rlmem.buffers.native import compiled
from rlmem.errors import UsageError

Floats = npt.NDArray[np.float64]
#: Keeps every transition reachable, as in the paper's proportional variant.
EPSILON = 1e-6


@compiled(void(float64[::1], int64, int64[::1], float64[::1]))
def _set(tree: Floats, leaves: int, indices: Ints, values: Floats) -> None:
    for i in range(indices.size):
        node = leaves + indices[i]
        tree[node] = values[i]
        node >>= 1
        # Sums are taken anew, not adjusted: no rounding error gathers over millions of updates.
        while node:
            tree[node] = tree[2 * node] + tree[2 * node + 1]
            node >>= 1


@compiled(void(float64[::1], int64, float64[::1], int64[::1]))
def _find(tree: Floats, leaves: int, masses: Floats, found: Ints) -> None:
    for i in range(masses.size):
        node, mass = 1, masses[i]
        while node < leaves:
            node *= 2
            # The right half may be empty: rounding must not lead into it.
            if mass >= tree[node] and tree[node + 1] > 0.0:
                mass -= tree[node]
                node += 1
        found[i] = node - leaves


class Priorities:
    """A priority for each transition; new ones get the largest so far. 16 bytes a transition."""

    def __init__(self, capacity: int, *, alpha: float = 0.6, beta: float = 0.4) -> None:
        if not 0 <= alpha <= 1 or not 0 <= beta <= 1:
            raise UsageError(f"alpha={alpha} and beta={beta} have to be between 0 and 1")
        self.capacity, self.alpha, self.beta = capacity, alpha, beta
        self._leaves = 1 << max(0, (capacity - 1).bit_length())
        self._tree = np.zeros(2 * self._leaves)
        self._largest = 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of the tree."""
        return self._tree.nbytes

    def add(self, start: int, count: int) -> None:
        """Transitions start, start + 1, … were written."""
        indices = np.arange(start, start + count)
        _set(self._tree, self._leaves, indices, np.full(count, self._largest**self.alpha))

    def update(self, indices: npt.NDArray[Any], priorities: npt.NDArray[Any]) -> None:
        """Set priorities; they have to be finite and not negative."""
        index = np.ascontiguousarray(indices.reshape(-1), np.int64)
        values = np.ascontiguousarray(priorities.reshape(-1), np.float64)
        if index.size != values.size:
            raise UsageError(f"{index.size} indices and {values.size} priorities")
        if index.size and (index.min() < 0 or index.max() >= self.capacity):
            raise UsageError("an index is outside the buffer")
        if not (np.isfinite(values).all() and (values >= 0).all()):
            raise UsageError("priorities have to be finite and not negative")
        if values.size:
            self._largest = max(self._largest, float(values.max()))
            _set(self._tree, self._leaves, index, (values + EPSILON) ** self.alpha)

    def sample(self, count: int, size: int, rng: Any) -> tuple[Ints, npt.NDArray[np.float32]]:
        """Indices drawn in proportion, one from each of ``count`` equal strata, and their weights (at most 1)."""
        total = float(self._tree[1])
        masses = (np.arange(count) + rng.random(count)) * (total / count)
        found = np.empty(count, np.int64)
        _find(self._tree, self._leaves, masses, found)
        chances = self._tree[self._leaves + found] / total
        weights = (size * chances) ** -self.beta
        return found, (weights / weights.max()).astype(np.float32)

    @property
    def largest(self) -> float:
        """The largest priority so far: what new transitions get."""
        return self._largest

    def values(self, indices: Ints) -> Floats:
        """The weights of some transitions in the draw."""
        return np.ascontiguousarray(self._tree[self._leaves + indices])

    @classmethod
    def of(cls, values: Floats, capacity: int, *, alpha: float, beta: float, largest: float) -> Priorities:
        """A tree whose first transitions have these weights in the draw."""
        made = cls(capacity, alpha=alpha, beta=beta)
        made._largest = largest
        _set(made._tree, made._leaves, np.arange(values.size), np.ascontiguousarray(values, np.float64))
        return made

    def moved(self, indices: Ints, capacity: int) -> Priorities:
        """The same for another capacity, where these transitions become 0, 1, …"""
        return Priorities.of(self.values(indices), capacity, alpha=self.alpha, beta=self.beta, largest=self._largest)

    def clear(self) -> None:
        """Forget every priority."""
        self._tree[:] = 0
        self._largest = 1.0
