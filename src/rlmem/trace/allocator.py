"""torch's caching allocator for CUDA, small enough to read: how many bytes it reserves for a sequence of allocations.

Sizes are rounded to 512 B. Up to 1 MiB they come from segments of 2 MiB, under 10 MiB from segments of 20 MiB, above that
from a segment of their own, rounded to 2 MiB. The smallest free block that is large enough is taken (the lowest address
among equals) and split when the rest is worth keeping; neighbours that are free join. Segments are never given back:
that is what makes "reserved" larger than "allocated", and what the driver's figure holds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from rlmem.units import MIB

ROUND = 512
SMALL = MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
OWN_SEGMENT = 10 * MIB
ROUND_LARGE = 2 * MIB


def rounded(nbytes: int, to: int = ROUND) -> int:
    """Bytes a block takes.

    >>> rounded(1), rounded(512), rounded(513)
    (512, 512, 1024)
    """
    return -(-nbytes // to) * to


def segment_bytes(block: int) -> int:
    """Bytes asked of the driver when no free block is large enough."""
    if block <= SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if block < OWN_SEGMENT else rounded(block, ROUND_LARGE)


@dataclass(slots=True, eq=False)
class _Block:
    """A stretch of a segment, between its neighbours there."""

    address: int
    size: int
    small: bool
    free: bool = False
    before: _Block | None = None
    after: _Block | None = None

    @property
    def key(self) -> tuple[int, int]:
        """The order free blocks are searched in."""
        return self.size, self.address


class CachingAllocator:
    """One device, one stream; remembers the peaks of what was handed out and of what was reserved."""

    def __init__(self) -> None:
        self.allocated = self.reserved = self.peak_allocated = self.peak_reserved = 0
        self._free: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        self._at: dict[int, _Block] = {}
        self._end = 0

    def allocate(self, nbytes: int) -> int:
        """Hand out a block and return its address, by which it is freed."""
        size = rounded(max(nbytes, 1))
        block = self._find(size)
        rest = block.size - size
        if rest >= ROUND if block.small else rest > SMALL:
            self._split(block, size)
        block.free = False
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        return block.address

    def release(self, address: int) -> None:
        """Take a block back and join it with free neighbours."""
        block = self._at[address]
        block.free = True
        self.allocated -= block.size
        if block.after and block.after.free:
            self._absorb(block, block.after)
        if block.before and block.before.free:
            block = block.before
            self._forget(block)
            assert block.after
            self._join(block, block.after)
        insort(self._free[block.small], block.key)

    def _find(self, size: int) -> _Block:
        small = size <= SMALL
        free = self._free[small]
        index = bisect_left(free, (size, 0))
        if index < len(free):
            return self._at[free.pop(index)[1]]
        segment = segment_bytes(size)
        block = _Block(self._end, segment, small)
        self._end += segment + 1  # segments never touch
        self._at[block.address] = block
        self.reserved += segment
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return block

    def _split(self, block: _Block, size: int) -> None:
        rest = _Block(block.address + size, block.size - size, block.small, True, block, block.after)
        if rest.after:
            rest.after.before = rest
        block.size, block.after = size, rest
        self._at[rest.address] = rest
        insort(self._free[rest.small], rest.key)

    def _absorb(self, block: _Block, other: _Block) -> None:
        self._forget(other)
        self._join(block, other)

    def _join(self, block: _Block, other: _Block) -> None:
        block.size += other.size
        block.after = other.after
        if other.after:
            other.after.before = block
        del self._at[other.address]

    def _forget(self, block: _Block) -> None:
        free = self._free[block.small]
        del free[bisect_left(free, block.key)]
