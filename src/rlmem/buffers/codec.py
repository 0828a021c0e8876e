"""Blocks in and out of their stored form: a transform, then a coder. Lossless, native, without the GIL.

A transform is a set of lags; for each, every byte has the byte one lag before it subtracted, modulo 256. *Left* is the
neighbouring pixel, *up* the row above, *plane* the previous colour plane, *time* the previous unit of the block. They
undo exactly whatever the data is. *Rows* goes with *left*: the first pixel of a row has no neighbour, so what is left of it
is told as the difference to the first pixel of the row above. *Shuffle* puts the first bytes of all numbers together, then the second ones: what
floats need. *Sparse* tells only what changed from unit to unit.

What coding needs beside the block, a column keeps as models: the reference of *sparse*, the table of the Huffman coder.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, int64, uint8, void

from rlmem.buffers import clib, huffman, sparse
from rlmem.buffers.native import (
    at,
    call_lz4,
    call_zstd,
    call_zstd_level,
    compiled,
    copy_bytes,
    inlined,
    read_byte,
    running_sums_1,
    running_sums_2,
    running_sums_3,
    running_sums_4,
    write_byte,
)

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Where a block is: not yet written; in a raw segment; equal to the column's pattern; in the log as it is, or coded by LZ4,
#: Zstandard, or the column's own Huffman table.
ABSENT, RAW, PATTERN, STORED, LZ4, ZSTD, HUFFMAN = range(7)
#: Transforms, as bits above the place; above them the number of the model.
LEFT, UP, PLANE, TIME, SHUFFLE, SPARSE, ROWS = 1, 2, 4, 8, 16, 32, 64
SIZE_BITS, PLACE_BITS, MASK_BITS = 40, 3, 8
#: Models a column may have: a table entry names one in eight bits.
MOST_MODELS = 255

#: A block that codes to more than this share of itself is left as it is: sampling it then costs nothing.
WORTH = 0.92
#: Bytes behind a coded block that may be read, never used.
SLACK = 16

#: Positions in the geometry array every compiled function takes.
K, UNIT, DEPTH, OUTER, INNER, RING, OBS, LAG_LEFT, LAG_UP, LAG_PLANE, ITEM, ROOMS = range(12)
GEOMETRY = 12
#: Positions in a worker's array: functions and contexts, its memory, whose turn it is; then five numbers for each room:
#: which block is in it, where its units are, how many are made, where the runs of the next one are and where they end.
Z_DECODE, Z_DCTX, L_DECODE, SCRATCH, RUNS, SPARE, TURN, ROOM = range(8)
KEY, WHERE, MADE, NEXT, END = range(5)
MOST_ROOMS = 8
WORK = ROOM + 5 * MOST_ROOMS


@inlined
def _add_near(target: int, size: int, lag: int) -> None:
    """Undo a subtraction along a short lag."""
    done = np.int64(0)
    if lag == 1:
        done = running_sums_1(target, size)
    elif lag == 2:
        done = running_sums_2(target, size)
    elif lag == 3:
        done = running_sums_3(target, size)
    elif lag == 4:
        done = running_sums_4(target, size)
    part = carray(at(target), (size,), np.uint8)
    for i in range(max(done, lag), size):
        part[i] = part[i] + part[i - lag]


@inlined
def _add_rows(target: int, size: int, lag: int) -> None:
    """Undo a subtraction along a lag; row by row so that the additions run side by side."""
    if lag < 16:
        _add_near(target, size, lag)
        return
    start = lag
    while start < size:
        width = min(lag, size - start)
        row = carray(at(target + start), (width,), np.uint8)
        above = carray(at(target + start - lag), (width,), np.uint8)
        for i in range(width):
            row[i] = row[i] + above[i]
        start += width


@inlined
def _subtract(source: int, target: int, size: int, lag: int) -> None:
    copy_bytes(target, source, min(lag, size))
    # Three views that all start at 0: the compiler does many at a time only where no index can be negative.
    count = max(size - lag, 0)
    before = carray(at(source), (count,), np.uint8)
    here = carray(at(source + lag), (count,), np.uint8)
    out = carray(at(target + lag), (count,), np.uint8)
    for i in range(count):
        out[i] = here[i] - before[i]


@inlined
def _subtract_starts(target: int, size: int, pixel: int, row: int) -> None:
    """The first pixel of each row but the first, less that of the row above; in place, from the end."""
    start = (size - 1) // row * row
    while start > 0:
        for i in range(start, min(start + pixel, size)):
            write_byte(target + i, read_byte(target + i) - read_byte(target + i - row))
        start -= row


@inlined
def _add_starts(target: int, size: int, pixel: int, row: int) -> None:
    start = row
    while start < size:
        for i in range(start, min(start + pixel, size)):
            write_byte(target + i, read_byte(target + i) + read_byte(target + i - row))
        start += row


@inlined
def _unshuffle(source: int, target: int, size: int, item: int) -> None:
    count = size // item
    for byte in range(item):
        plane = carray(at(source + byte * count), (count,), np.uint8)
        out = carray(at(target), (size,), np.uint8)
        for i in range(count):
            out[i * item + byte] = plane[i]


@inlined
def unpacked(place: int, address: int, size: int, target: int, room: int, work: Any) -> int:
    """Undo LZ4 or Zstandard; how many bytes came out."""
    if place == ZSTD:
        return call_zstd(work[Z_DECODE], work[Z_DCTX], target, room, address, size)
    return call_lz4(work[L_DECODE], address, target, size, room)


@inlined
def decode(place: int, mask: int, model: int, address: int, size: int, g: Any, target: int, work: Any) -> bool:
    """Put a stored block's units, as they were, to an address; of any transform but sparse."""
    unit = g[UNIT]
    total = g[K] * unit
    first = work[SPARE] if mask & SHUFFLE else target
    if place == HUFFMAN:
        if not huffman.decode(address, size, first, total, model):
            return False
    elif unpacked(place, address, size, first, total, work) != total:
        return False
    if mask & SHUFFLE:
        _unshuffle(first, target, total, g[ITEM])
        return True
    if mask & TIME:
        _add_rows(target, total, unit)
    if mask & (LEFT | UP | PLANE):
        for n in range(g[K]):
            start = target + n * unit
            if mask & PLANE:
                _add_rows(start, unit, g[LAG_PLANE])
            if mask & UP:
                _add_rows(start, unit, g[LAG_UP])
            if mask & ROWS:
                _add_starts(start, unit, g[LAG_LEFT], g[LAG_UP])
            if mask & LEFT:
                _add_rows(start, unit, g[LAG_LEFT])
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
    bits = 0
    for bit in (LEFT, UP, PLANE, TIME):
        if mask & bit:
            bits += 1
    one, two = np.int64(first.ctypes.data), np.int64(second.ctypes.data)
    if not bits:
        copy_bytes(one, address, total)
    # From the block to one area, then from one to the other, so that the last step ends in the first.
    here, there = address, one if bits % 2 else two
    for bit in (LEFT, UP, PLANE, TIME):
        if mask & bit:
            if bit == TIME:
                _subtract(here, there, total, unit)
            else:
                lag = g[LAG_LEFT] if bit == LEFT else (g[LAG_UP] if bit == UP else g[LAG_PLANE])
                for n in range(g[K]):
                    _subtract(here + n * unit, there + n * unit, unit, lag)
                    if bit == LEFT and mask & ROWS:
                        _subtract_starts(there + n * unit, unit, g[LAG_LEFT], g[LAG_UP])
            here, there = there, two if there == one else one


@compiled(int64(int64, int64, uint8[::1], int64, uint8[::1], int64))
def _zstd(function: int, context: int, source: Bytes, size: int, target: Bytes, level: int) -> int:
    return call_zstd_level(function, context, target.ctypes.data, target.size, source.ctypes.data, size, level)


@compiled(int64(int64, uint8[::1], int64, uint8[::1]))
def _lz4(function: int, source: Bytes, size: int, target: Bytes) -> int:
    return call_lz4(function, source.ctypes.data, target.ctypes.data, size, target.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How a block is coded: the coder, its level, the transform before it, and the model both may need.

    Level 0 of Zstandard is its Huffman stage alone; blocks in older files have it.
    """

    place: int
    level: int = 1
    mask: int = 0
    model: int = 0

    @property
    def name(self) -> str:
        """As shown to people: ``zstd-1 left+up``."""
        coder = {STORED: "", LZ4: "lz4", ZSTD: f"zstd-{self.level}", HUFFMAN: "huffman"}[self.place]
        names = {
            LEFT: "left", ROWS: "rows", UP: "up", PLANE: "plane", TIME: "time", SHUFFLE: "shuffle", SPARSE: "sparse",
        }  # fmt: skip
        return f"{coder} {'+'.join(name for bit, name in names.items() if self.mask & bit)}".strip() or "none"

    @property
    def bits(self) -> int:
        """What a table entry says of it, above the size."""
        return (((self.model << MASK_BITS) | self.mask) << PLACE_BITS | self.place) << SIZE_BITS


class Encoder:
    """Room and a context to encode blocks of one size; one to a column, for its method, or for any method to be tried."""

    def __init__(self, block_bytes: int, method: Method | None = None) -> None:
        self.block_bytes = block_bytes
        lean = method is not None and bool(method.mask & SPARSE)
        self._first = np.empty(runs_room(block_bytes) if lean else block_bytes, np.uint8)
        self._second = np.empty(0 if lean else block_bytes, np.uint8)
        # Zstandard's and LZ4's worst cases are under 1/128 more; Huffman codes are written to four places at first.
        more = self._first.size // (2 if method is None or method.place == HUFFMAN else 64)
        self.output = np.empty(self._first.size + more + 1024, np.uint8)
        self._address = self._first.__array_interface__["data"][0]
        self.output_address = self.output.__array_interface__["data"][0]
        self._coders = clib.coders()
        self._library = clib.zstd()
        self._made = 0

    @property
    def _context(self) -> int:
        """A compression context, made when first needed."""
        if not self._made and self._library:
            self._made = self._library.ZSTD_createCCtx()
            weakref.finalize(self, self._library.ZSTD_freeCCtx, self._made)
        return self._made

    @property
    def nbytes(self) -> int:
        """The room it holds."""
        return self._first.nbytes + self._second.nbytes + self.output.nbytes

    def transformed(self, address: int, geometry: Ints, mask: int) -> int:
        """Where the block at an address is, transformed, until the next call."""
        transform(address, mask, geometry, self._first, self._second)
        return self._address

    def encode(self, address: int, geometry: Ints, method: Method, model: int = 0) -> int:
        """The size of the block at an address once coded, 0 where it cannot be; the bytes are at the start of ``output``."""
        size = int(geometry[K] * geometry[UNIT])
        if method.mask & SPARSE:
            # Runs take no more than half a block, so that there is room for them when it is read.
            out = self.output_address if method.place == STORED else self._address
            size = sparse.tell(address, geometry[K], geometry[UNIT], model, out, runs_room(size))
            if method.place == STORED or not size:
                return int(size)
        else:
            transform(address, method.mask, geometry, self._first, self._second)
        if method.place == HUFFMAN:
            return int(huffman.encode(self._address, size, model, self.output))
        if method.place == ZSTD:
            return int(_zstd(self._coders.zstd_compress, self._context, self._first, size, self.output, method.level))
        return int(_lz4(self._coders.lz4_compress, self._first, size, self.output))


def runs_room(block_bytes: int) -> int:
    """The most that the runs of a sparse block may take."""
    return block_bytes // 2


class Worker:
    """What one thread needs to decode: a context, rooms for blocks, one more to unshuffle, and rooms for runs."""

    def __init__(self, block_bytes: int, rooms: int, *, spare: bool = True, runs: bool = True) -> None:
        coders, library = clib.coders(), clib.zstd()
        blocks, apart = rooms + spare, rooms * runs_room(block_bytes) if runs else 0
        self.memory = np.empty(blocks * block_bytes + apart + SLACK, np.uint8)
        self.work = np.zeros(WORK, np.int64)
        self.work[Z_DECODE], self.work[L_DECODE] = coders.zstd_decompress, coders.lz4_decompress
        start = self.memory.__array_interface__["data"][0]
        self.work[SCRATCH], self.work[SPARE] = start, start + rooms * block_bytes
        self.work[RUNS] = start + blocks * block_bytes
        self.address = self.work.__array_interface__["data"][0]
        if library:
            context = library.ZSTD_createDCtx()
            self.work[Z_DCTX] = context
            weakref.finalize(self, library.ZSTD_freeDCtx, context)

    @property
    def nbytes(self) -> int:
        """The memory it works in."""
        return self.memory.nbytes
