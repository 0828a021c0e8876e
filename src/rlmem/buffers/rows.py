"""Which unit a row's observation is: a bit per row, and a number every 64 rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rlmem.buffers import kernels
from rlmem.buffers.codec import Ints


class Rows:
    """A ring of rows for some envs, each row naming a unit in its env's stream.

    A row's observation is its unit, its next observation the unit after. A row that continues the one before it starts
    at that unit; a row that does not (an episode ended) starts one further on. So one bit a row is enough.
    """

    def __init__(self, capacity: int, n_envs: int) -> None:
        words = (capacity + 63) // 64
        self.capacity, self.n_envs = capacity, n_envs
        self.anchors = np.zeros((n_envs, words), np.uint32)
        self.bits = np.zeros((n_envs, words), np.uint64)
        self.old_anchors = np.zeros(n_envs, np.uint32)
        self.old_bits = np.zeros(n_envs, np.uint64)
        #: The unit after each env's newest row: its next observation. The first row starts at unit 0.
        self.heads = np.full(n_envs, -1, np.int64)
        self._oldest = np.zeros(n_envs, np.int64), np.arange(n_envs)
        #: Where the next row goes, how many are held, whether the last one can be continued; compiled code counts them on.
        self.state = np.array([0, 0, 0, capacity], np.int64)

    @property
    def pos(self) -> int:
        """The slot the next row goes to."""
        return int(self.state[0])

    @property
    def filled(self) -> int:
        """How many rows are held."""
        return int(self.state[1])

    @property
    def nbytes(self) -> int:
        """Bytes written so far."""
        share = min(1.0, ((self.filled + 63) // 64) / self.anchors.shape[1])
        return int((self.anchors.nbytes + self.bits.nbytes) * share)

    def units_of(self, slots: Ints, envs: Ints) -> Ints:
        """The units of some rows."""
        units = np.empty(slots.size, np.int64)
        kernels.number(self.pos, slots, envs, self.heads, *self.arrays, units)
        return units

    @property
    def arrays(
        self,
    ) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64], npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
        """What compiled code reads."""
        return self.anchors, self.bits, self.old_anchors, self.old_bits

    def oldest(self) -> int:
        """The slot of the oldest row held."""
        return self.pos if self.filled == self.capacity else 0

    def oldest_units(self) -> list[int] | None:
        """The units of the oldest row, for each env; None while nothing has been written over."""
        if self.filled < self.capacity:
            return None
        slots, envs = self._oldest
        slots[:] = self.oldest()
        return self.units_of(slots, envs).tolist()

    def in_order(self) -> Ints:
        """Slots from the oldest row to the newest."""
        return (self.oldest() + np.arange(self.filled)) % self.capacity

    def renumber(self, units: Ints) -> None:
        """Rows 0, 1, … hold these units (rows × envs)."""
        count = len(units)
        self.anchors[:, : (count + 63) // 64] = (units[::64] & 0xFFFFFFFF).T
        breaks = np.zeros((self.anchors.shape[1] * 64, self.n_envs), np.uint64)
        # The bit of a row says that the row after it does not continue it.
        breaks[: max(count - 1, 0)] = np.diff(units, axis=0) != 1
        shifts = np.arange(64, dtype=np.uint64)[None, :, None]
        self.bits[:] = (breaks.reshape(-1, 64, self.n_envs) << shifts).sum(axis=1, dtype=np.uint64).T
        self.state[:3] = count % self.capacity, count, count > 0

    def clear(self) -> None:
        """Forget every row. Units go on counting."""
        self.state[:3] = 0
