"""Blocks in and out of their stored form: delta transforms, then Zstandard or LZ4. Lossless, native, without the GIL.

A transform is a set of lags; for each, every byte has the byte one lag before it subtracted, modulo 256. *Left* is the
neighbouring pixel, *up* the row above, *plane* the previous colour plane, *time* the previous unit of the block. They
undo exactly whatever the data is. *Shuffle* puts the first bytes of all numbers together, then the second ones: what
floats need.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int64, uint8, void

from rlmem.buffers import clib
from rlmem.buffers.native import (
    call_lz4,
    call_zstd,
    call_zstd_level,
    compiled,
    copy_bytes,
    inlined,
)

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Where a block is: not yet written; in a raw segment; equal to the column's pattern; in the log as it is, LZ4, Zstandard.
ABSENT, RAW, PATTERN, STORED, LZ4, ZSTD = range(6)
#: Transforms, as bits above the place.
LEFT, UP, PLANE, TIME, SHUFFLE = 1, 2, 4, 8, 16

#: A block that codes to more than this share of itself is left as it is: sampling it then costs nothing.
WORTH = 0.92

#: Positions in the geometry array every compiled function takes.
K, UNIT, DEPTH, OUTER, INNER, RING, OBS, LAG_LEFT, LAG_UP, LAG_PLANE, ITEM = range(11)
GEOMETRY = 11
#: Positions in a worker's array of addresses; the last two keep which block each scratch half holds.
Z_DECODE, Z_DCTX, L_DECODE, TURN, KEY = 0, 1, 2, 3, 4
WORK = 6


@inlined
def _add_near(data: Any, start: int, size: int, lag: int) -> None:
    """Undo a subtraction along a short lag, keeping the running sums out of memory: reading back a byte just written costs
    five times as much as adding to it."""
    part = data[start : start + size]
    if lag == 1:
        a = np.uint8(0)
        for i in range(part.size):
            a = np.uint8(a + part[i])
            part[i] = a
    elif lag == 3:
        a = b = c = np.uint8(0)
        for n in range(part.size // 3):
            i = 3 * n
            a, b, c = np.uint8(a + part[i]), np.uint8(b + part[i + 1]), np.uint8(c + part[i + 2])
            part[i], part[i + 1], part[i + 2] = a, b, c
        for i in range(max(part.size // 3 * 3, 3), part.size):
            part[i] = part[i] + part[i - 3]
    else:
        for i in range(lag, part.size):
            part[i] = part[i] + part[i - lag]


@inlined
def _add_rows(data: Any, start: int, size: int, lag: int) -> None:
    """Undo a subtraction along a lag; row by row so that the additions run side by side."""
    if lag < 16:
        _add_near(data, start, size, lag)
        return
    at = start + lag
    end = start + size
    while at < end:
        width = min(lag, end - at)
        row = data[at : at + width]
        above = data[at - lag : at - lag + width]
        for i in range(width):
            row[i] = row[i] + above[i]
        at += width


@inlined
def _subtract(source: Any, target: Any, start: int, size: int, lag: int) -> None:
    for i in range(start, start + min(lag, size)):
        target[i] = source[i]
    for i in range(start + lag, start + size):
        target[i] = source[i] - source[i - lag]


@inlined
def _unshuffle(source: Any, target: Any, size: int, item: int) -> None:
    count = size // item
    for byte in range(item):
        plane = source[byte * count : (byte + 1) * count]
        for i in range(count):
            target[i * item + byte] = plane[i]


@inlined
def decode(place: int, mask: int, address: int, size: int, g: Any, scratch: Any, half: int, work: Any) -> bool:
    """Put a stored block's units, as they were, into one half of the scratch area."""
    unit = g[UNIT]
    total = g[K] * unit
    target = scratch[2] if mask & SHUFFLE else scratch[half]
    if place == ZSTD:
        got = call_zstd(work[Z_DECODE], work[Z_DCTX], target.ctypes.data, total, address, size)
    else:
        got = call_lz4(work[L_DECODE], address, target.ctypes.data, size, total)
    if got != total:
        return False
    if mask & SHUFFLE:
        _unshuffle(target, scratch[half], total, g[ITEM])
        return True
    if mask & TIME:
        _add_rows(target, 0, total, unit)
    if mask & (LEFT | UP | PLANE):
        for n in range(g[K]):
            if mask & PLANE:
                _add_rows(target, n * unit, unit, g[LAG_PLANE])
            if mask & UP:
                _add_rows(target, n * unit, unit, g[LAG_UP])
            if mask & LEFT:
                _add_rows(target, n * unit, unit, g[LAG_LEFT])
    return True


@compiled(void(int64, int64, int64[::1], uint8[::1], uint8[::1]))
def transform(address: int, mask: int, g: Ints, first: Bytes, second: Bytes) -> None:
    """Write the block at an address, transformed, to ``first``; ``second`` is room to work in."""
    unit = g[UNIT]
    total = g[K] * unit
    if mask & SHUFFLE:
        copy_bytes(second.ctypes.data, address, total)
        count = total // g[ITEM]
        for i in range(count):
            for byte in range(g[ITEM]):
                first[byte * count + i] = second[i * g[ITEM] + byte]
        return
    copy_bytes(first.ctypes.data, address, total)
    for bit in (LEFT, UP, PLANE, TIME):
        if mask & bit:
            copy_bytes(second.ctypes.data, first.ctypes.data, total)
            if bit == TIME:
                _subtract(second, first, 0, total, unit)
            else:
                lag = g[LAG_LEFT] if bit == LEFT else (g[LAG_UP] if bit == UP else g[LAG_PLANE])
                for n in range(g[K]):
                    _subtract(second, first, n * unit, unit, lag)


@compiled(int64(int64, int64, uint8[::1], int64, uint8[::1], int64))
def _zstd(function: int, context: int, source: Bytes, size: int, target: Bytes, level: int) -> int:
    return call_zstd_level(function, context, target.ctypes.data, target.size, source.ctypes.data, size, level)


@compiled(int64(int64, int64, uint8[::1], int64, uint8[::1]))
def _zstd_set(function: int, context: int, source: Bytes, size: int, target: Bytes) -> int:
    return call_zstd(function, context, target.ctypes.data, target.size, source.ctypes.data, size)


@compiled(int64(int64, uint8[::1], int64, uint8[::1]))
def _lz4(function: int, source: Bytes, size: int, target: Bytes) -> int:
    return call_lz4(function, source.ctypes.data, target.ctypes.data, size, target.size)


@compiled(int64(int64, int64, int64, int64[::1], uint8[:, ::1], int64[::1]))
def decode_block(kind: int, address: int, size: int, g: Ints, scratch: Bytes, work: Ints) -> int:
    """Decode one block into the first half of the scratch area; 1 when it came out whole."""
    return 1 if decode(kind & 7, kind >> 3, address, size, g, scratch, 0, work) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How a block is coded: the coder, its level and the transform before it.

    Level 0 of Zstandard is its Huffman stage alone.
    """

    place: int
    level: int = 1
    mask: int = 0

    @property
    def name(self) -> str:
        """As shown to people: ``zstd-1 left+up``."""
        coder = {STORED: "none", LZ4: "lz4", ZSTD: f"zstd-{self.level}" if self.level else "huffman"}[self.place]
        parts = [
            n
            for bit, n in ((LEFT, "left"), (UP, "up"), (PLANE, "plane"), (TIME, "time"), (SHUFFLE, "shuffle"))
            if self.mask & bit
        ]
        return f"{coder} {'+'.join(parts)}".strip()


class Encoder:
    """Room and a context to encode blocks of one size; one to a column."""

    def __init__(self, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        # Zstandard's and LZ4's worst cases are under 1/128 more, plus a constant.
        room = block_bytes + block_bytes // 64 + 1024
        self._first = np.empty(block_bytes, np.uint8)
        self._second = np.empty(block_bytes, np.uint8)
        self.output = np.empty(room, np.uint8)
        self._coders = clib.coders()
        library = clib.zstd()
        self._contexts: dict[bool, int] = {}
        self._library = library

    def _context(self, literals: bool) -> int:
        """A compression context, made when first needed."""
        if literals not in self._contexts and self._library:
            self._contexts[literals] = made = self._library.ZSTD_createCCtx()
            weakref.finalize(self, self._library.ZSTD_freeCCtx, made)
            if literals:
                clib.literals_only(made)
        return self._contexts.get(literals, 0)

    @property
    def nbytes(self) -> int:
        """The room it holds."""
        return self._first.nbytes + self._second.nbytes + self.output.nbytes

    def encode(self, address: int, geometry: Ints, method: Method) -> int:
        """The size of the block at an address once coded; the bytes are at the start of ``output``."""
        size = int(geometry[K] * geometry[UNIT])
        transform(address, method.mask, geometry, self._first, self._second)
        if method.place == ZSTD and method.level:
            context = self._context(literals=False)
            return int(_zstd(self._coders.zstd_compress, context, self._first, size, self.output, method.level))
        if method.place == ZSTD:
            context = self._context(literals=True)
            return int(_zstd_set(self._coders.zstd_compress_set, context, self._first, size, self.output))
        return int(_lz4(self._coders.lz4_compress, self._first, size, self.output))


class Worker:
    """What one thread needs to decode: a context and room for two blocks, and one more to unshuffle."""

    def __init__(self, block_bytes: int) -> None:
        coders, library = clib.coders(), clib.zstd()
        self.scratch = np.empty((3, max(block_bytes, 1)), np.uint8)
        self.work = np.zeros(WORK, np.int64)
        self.work[Z_DECODE], self.work[L_DECODE] = coders.zstd_decompress, coders.lz4_decompress
        if library:
            context = library.ZSTD_createDCtx()
            self.work[Z_DCTX] = context
            weakref.finalize(self, library.ZSTD_freeDCtx, context)
