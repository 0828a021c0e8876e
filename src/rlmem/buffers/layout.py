"""How one observation key is laid out: its unit, the stack it is taken from, the block it is stored in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from rlmem.buffers import codec

#: A raw block is about this large: small beside any buffer worth the name, large beside what a block costs to keep.
RAW_BLOCK_BYTES = 512 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A key's shape and dtype, how many frames are stacked along which axis, and how many units make a block."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    depth: int = 1
    axis: int = 0
    block: int = 1

    @property
    def obs_bytes(self) -> int:
        """One observation."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def unit_bytes(self) -> int:
        """What is stored of it: the newest frame."""
        return self.obs_bytes // self.depth

    @property
    def unit_shape(self) -> tuple[int, ...]:
        """The shape of a unit."""
        if self.depth == 1:
            return self.shape
        shape = list(self.shape)
        shape[self.axis] //= self.depth
        return tuple(shape)

    @property
    def outer(self) -> int:
        """How many pieces a stack interleaves its frames in: 1 along the first axis."""
        return prod(self.shape[: self.axis]) if self.depth > 1 else 1

    @property
    def block_bytes(self) -> int:
        """A block before any coding."""
        return self.block * self.unit_bytes

    @property
    def rooms(self) -> int:
        """Blocks that stay decoded at a time: those that a stack and the next one are taken from."""
        return min(2 + (self.depth - 1) // self.block, codec.MOST_ROOMS)

    def with_block(self, units: int) -> Layout:
        """The same with another block size."""
        return replace(self, block=units)

    def lags(self) -> tuple[int, int, int]:
        """How far back the pixel to the left, the row above and the previous colour plane are, in bytes; 0: no such thing."""
        item = self.dtype.itemsize
        shape = tuple(n for n in self.unit_shape if n > 1)
        if item > 1 or not shape:
            return 0, 0, 0
        if len(shape) == 1:
            return 1, 0, 0
        if len(shape) == 2:
            return 1, shape[1], 0
        if shape[-1] <= 4 < shape[0]:
            return shape[-1], shape[-2] * shape[-1], 1
        return 1, shape[-1], shape[-1] * shape[-2]

    def geometry(self, ring: int) -> npt.NDArray[np.int64]:
        """What compiled code needs to know."""
        g = np.zeros(codec.GEOMETRY, np.int64)
        g[codec.K], g[codec.UNIT], g[codec.DEPTH], g[codec.OUTER] = self.block, self.unit_bytes, self.depth, self.outer
        g[codec.INNER] = self.unit_bytes // self.outer
        g[codec.RING], g[codec.OBS], g[codec.ITEM] = ring, self.obs_bytes, self.dtype.itemsize
        g[codec.LAG_LEFT], g[codec.LAG_UP], g[codec.LAG_PLANE] = self.lags()
        g[codec.ROOMS] = self.rooms
        return g


def raw_block(unit_bytes: int, rows: int) -> int:
    """Units in a block that is stored as it is: large enough to cost nothing, small beside the buffer."""
    return max(1, min(RAW_BLOCK_BYTES // max(unit_bytes, 1), max(rows // 128, min(8, rows // 8)), 1024))
