"""One observation key: its streams of units, in blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numba import int64, uint8, void

from rlmem.buffers import codec, kernels
from rlmem.buffers.arena import Arena
from rlmem.buffers.codec import Bytes, Encoder, Ints, Method, Worker
from rlmem.buffers.layout import Layout
from rlmem.buffers.models import Models
from rlmem.buffers.native import compiled, copy_bytes, same_bytes
from rlmem.buffers.rows import Rows

#: Coded blocks are laid one after another in log segments, about so many in each, up to so much.
LOG_BLOCKS, LOG_BYTES = 96, 1 << 20
AHEAD_UNITS = 16


@compiled(int64(int64, int64, int64, int64))
def _constant(address: int, units: int, size: int, pattern: int) -> int:
    for n in range(units):
        if not same_bytes(address + n * size, pattern, size):
            return 0
    return 1


@compiled(int64(uint8[::1]))
def address_of(array: Bytes) -> int:
    """Where an array's bytes are; quicker than asking numpy."""
    return array.ctypes.data


@compiled(void(int64, int64, int64))
def _copy(target: int, source: int, size: int) -> None:
    copy_bytes(target, source, size)


def _round_up(size: int, step: int) -> int:
    return -(-size // step) * step


def _log_segment(layout: Layout, coded_bytes: float) -> int:
    """A segment of the log: many coded blocks, so that little is lost where the next one does not fit, and a block at least."""
    many = min(LOG_BLOCKS * int(layout.block * coded_bytes), LOG_BYTES)
    return _round_up(max(many, layout.block_bytes + codec.SLACK), 64)


class Column:
    """The streams of one key, one for each env, and the blocks they are in.

    A block is written in place in a raw segment. When it is full it stays there, or is coded into the log, or is found
    to be the key's constant pattern and costs nothing. The table says for every block of every env where it is.
    """

    def __init__(
        self,
        layout: Layout,
        rows: Rows,
        *,
        method: Method | None = None,
        models: Models | None = None,
        coded_bytes: float = 0,
        paired: bool = True,
    ) -> None:
        self.layout, self.rows, self.method, self.paired = layout, rows, method, paired
        n_envs = rows.n_envs
        total = rows.capacity * n_envs * layout.unit_bytes
        # With a codec only blocks being written are raw, if it serves; and what is coded is smaller by some factor.
        self.raw = Arena(_round_up(max(layout.block_bytes, 1), 64), expected_bytes=0 if method else total)
        self.log = Arena(_log_segment(layout, coded_bytes), expected_bytes=int(rows.capacity * n_envs * coded_bytes))
        self.geometry = layout.geometry(ring=4)
        self.table = np.zeros((n_envs, 4, 2), np.int64)
        #: Counts the times the table moved.
        self.version = 0
        #: The oldest block kept and the newest one opened, for each env; before the first unit there is none.
        self.first = np.full(n_envs, -1, np.int64)
        self.opened = np.full(n_envs, -1, np.int64)
        self.sealed = np.full(n_envs, -1, np.int64)
        size = max(layout.obs_bytes, 1)
        #: Where a row waits to be written, and the row before it to be compared with.
        self.now, self.after, self.last = (np.zeros((n_envs, size), np.uint8) for _ in range(3))
        stacked = layout.depth > 1
        self.marks = np.zeros((rows.capacity if stacked else 1, n_envs), np.uint16)
        self.tops = np.zeros(n_envs, np.uint16)
        self.aside = np.zeros(n_envs, np.uint8)
        self.prefixes: list[dict[int, Bytes]] = [{} for _ in range(n_envs)]
        #: For each env the unit its first constant block repeated.
        self.patterns: dict[int, Bytes] = {}
        self.pattern_addresses = np.zeros(n_envs, np.int64)
        self.models = models or Models()
        self.encoder = Encoder(layout.block_bytes, method) if method else None
        #: Small blocks are opened, and later coded, some at a time.
        self._ahead = max(0, AHEAD_UNITS // layout.block - 1) if method else 0
        self.coded_blocks = self.coded_bytes = self.constant_blocks = 0
        self.on_seal: Callable[[Column, int], None] | None = None
        self._log_segment = -1
        self._log_used = 0
        self._log_live: dict[int, int] = {}
        self._workers: list[Worker] = []

    # -- writing -----------------------------------------------------------------------------------------------------

    def keep_aside(self, units: Ints) -> None:
        """Keep the older frames of stacks that do not follow what is in the stream."""
        for env in np.flatnonzero(self.aside):
            if self.aside[env] & 1:
                self.prefixes[env][int(units[env])] = self.now[env].copy()
            if self.aside[env] & 2:
                self.prefixes[env][int(units[env]) + 1] = self.after[env].copy()

    def turn(self) -> None:
        """The row is written: what came last is what the next row is compared with."""
        if self.paired:
            self.after, self.last = self.last, self.after
        else:
            self.now, self.last = self.last, self.now

    def prepare(self, starts: list[int], per_row: int) -> None:
        """Open blocks for the next row; seal full ones; free those nobody needs.

        ``starts`` is for each env the last unit written, or the next one where rows are single units.
        """
        k = self.layout.block
        # A row writes its next observation, and its own where an episode ended; or a single unit.
        behind = [
            env for env, (start, opened) in enumerate(zip(starts, self.opened.tolist(), strict=True))
            if opened < (max(start, 0) + per_row) // k
        ]  # fmt: skip
        if not behind:
            return
        oldest = self._oldest_units()
        for env in behind:
            start = max(starts[env], 0)
            if self.opened[env] < 0:
                self.first[env] = start // k
                self.opened[env] = self.sealed[env] = start // k - 1
            # Everything up to here is written, and with it every block before this one.
            sealed, last = int(self.sealed[env]) + 1, min(start // k, int(self.opened[env]) + 1)
            for block in range(sealed, last):
                self._seal(env, block)
            self.sealed[env] = max(last, sealed) - 1
            if oldest is not None:
                self._release(env, oldest[env] // k)
            for block in range(int(self.opened[env]) + 1, (start + per_row) // k + self._ahead + 1):
                self._open(env, block)
        if self.layout.depth > 1 and oldest is not None:
            self._prune(oldest)

    def _release(self, env: int, block: int) -> None:
        """Free an env's blocks before one."""
        end = min(block, int(self.sealed[env]) + 1)
        for free in range(int(self.first[env]), end):
            self._free(env, free)
        self.first[env] = max(end, self.first[env])

    def shrink(self) -> None:
        """Free what no row needs and give its memory back."""
        oldest = self._oldest_units()
        if oldest is not None:
            for env in range(self.rows.n_envs):
                self._release(env, oldest[env] // self.layout.block)
            self._prune(oldest)
        self.raw.trim()
        self.log.trim()

    def _oldest_units(self) -> list[int] | None:
        """The first unit of each env that is still needed."""
        oldest = self.rows.oldest_units()
        return None if oldest is None else [unit - (self.layout.depth - 1) for unit in oldest]

    def _prune(self, oldest: list[int]) -> None:
        for kept, first in zip(self.prefixes, oldest, strict=True):
            # Kept in the order they came.
            while kept and (start := next(iter(kept))) < first:
                del kept[start]

    def _slot(self, block: int) -> int:
        return block % self.table.shape[1]

    def _open(self, env: int, block: int) -> None:
        if block - self.first[env] + 1 > self.table.shape[1]:
            self._grow_table()
        name = self.raw.take()
        self.table[env, self._slot(block)] = (name << 32, (codec.RAW << codec.SIZE_BITS) | self.layout.block_bytes)
        self.opened[env] = block

    def _grow_table(self) -> None:
        old = self.table
        size = old.shape[1] + max(4, old.shape[1] // 4)
        self.table = np.zeros((old.shape[0], size, 2), np.int64)
        for env in range(old.shape[0]):
            if self.opened[env] >= 0:
                blocks = np.arange(self.first[env], self.opened[env] + 1)
                self.table[env, blocks % size] = old[env, blocks % old.shape[1]]
        self.geometry[codec.RING] = size
        self.version += 1

    def _seal(self, env: int, block: int) -> None:
        """A block is full: find it constant, code it, or leave it."""
        layout, slot = self.layout, self._slot(block)
        name = int(self.table[env, slot, 0]) >> 32
        address = int(self.raw.addresses[name])
        if layout.block_bytes == 0:
            return
        pattern = self.patterns.get(env)
        start = address if pattern is None else int(self.pattern_addresses[env])
        if _constant(address, layout.block, layout.unit_bytes, start):
            if pattern is None:
                self.set_pattern(env, self.unit_at(address))
            self.raw.give(name)
            self.table[env, slot] = (0, codec.PATTERN << codec.SIZE_BITS)
            self.constant_blocks += 1
            return
        if self.on_seal is not None:
            self.on_seal(self, address)
        if self.method is None or self.encoder is None:
            return
        size = self.encoder.encode(address, self.geometry, self.method, self.models.address(self.method.model))
        if not 0 < size < codec.WORTH * layout.block_bytes:
            return
        segment, at = self._log_room(size)
        _copy(self.log.addresses[segment] + at, self.encoder.output_address, size)
        self.raw.give(name)
        self.table[env, slot] = ((segment << 32) | at, self.method.bits | size)
        self.coded_blocks += 1
        self.coded_bytes += size

    def unit_at(self, address: int) -> Bytes:
        """A copy of the unit at an address."""
        unit = np.empty(self.layout.unit_bytes, np.uint8)
        _copy(unit.__array_interface__["data"][0], address, unit.size)
        return unit

    def set_pattern(self, env: int, pattern: Bytes) -> None:
        """What an env's blocks are when they cost nothing."""
        self.patterns[env] = pattern
        self.pattern_addresses[env] = address_of(pattern)

    def _log_room(self, size: int) -> tuple[int, int]:
        if self._log_segment < 0 or self._log_used + size + codec.SLACK > self.log.segment_bytes:
            full = self._log_segment
            self._log_segment, self._log_used = self.log.take(), 0
            self._log_live[self._log_segment] = 0
            if full >= 0 and not self._log_live[full]:
                self._drop_log(full)
        at = self._log_used
        self._log_used += size
        self._log_live[self._log_segment] += 1
        return self._log_segment, at

    def _drop_log(self, segment: int) -> None:
        del self._log_live[segment]
        self.log.give(segment)

    def _free(self, env: int, block: int) -> None:
        slot = self._slot(block)
        entry, info = self.table[env, slot].tolist()
        place, name = (info >> codec.SIZE_BITS) & 7, entry >> 32
        self.table[env, slot] = 0
        if place == codec.RAW:
            self.raw.give(name)
        elif place == codec.PATTERN:
            self.constant_blocks -= 1
        elif place != codec.ABSENT:
            self.coded_blocks -= 1
            self.coded_bytes -= info & ((1 << codec.SIZE_BITS) - 1)
            self._log_live[name] -= 1
            if not self._log_live[name] and name != self._log_segment:
                self._drop_log(name)

    # -- reading -----------------------------------------------------------------------------------------------------

    def worker_address(self, n: int) -> int:
        """Where the n-th thread's room to decode in is described; 0 where there is nothing to decode."""
        if self.encoder is None:
            return 0
        while len(self._workers) <= n:
            layout, mask = self.layout, self.method.mask if self.method else 0
            # Single units are decoded straight into the batch.
            rooms = 0 if layout.block == 1 and layout.depth == 1 else layout.rooms
            self._workers.append(
                Worker(layout.block_bytes, rooms, spare=layout.dtype.itemsize > 1, runs=bool(mask & codec.SPARSE))
            )
        return self._workers[n].address

    @property
    def moves(self) -> tuple[int, int, int]:
        """Differs once something has moved that compiled code reads from."""
        return self.version, self.raw.version, self.log.version

    def patch(self, batch: Bytes, flags: Bytes, bit: int, slots: Ints, envs: Ints) -> None:
        """Put in the frames that are kept aside."""
        layout = self.layout
        for i in np.flatnonzero(flags & bit):
            env = int(envs[i])
            mark = int(self.marks[slots[i], env])
            age, unit = mark & (kernels.MAX_DEPTH - 1), int(self.rows.units_of(slots[i : i + 1], envs[i : i + 1])[0])
            if bit == 2:
                chained = mark >> (kernels.AGE_BITS + 2) == kernels.CHAINED
                age, unit = (min(age + 1, layout.depth - 1) if chained else 0), unit + 1
            shape = (layout.outer, layout.depth, -1)
            stack = self.prefixes[env][unit - age].reshape(shape)
            batch[i].reshape(shape)[:, : layout.depth - 1 - age] = stack[:, age : layout.depth - 1]

    def context(self) -> Ints:
        """This column's line of what ``kernels.commit`` takes; it holds until the table or the staging areas change."""
        line = np.zeros(kernels.CONTEXT, np.int64)
        line[kernels.SIZE] = self.layout.obs_bytes
        line[kernels.SEGMENT_COUNT], line[kernels.MARK_COUNT] = self.raw.addresses.size, len(self.marks)
        for place, array in (
            (kernels.NOW, self.now), (kernels.AFTER, self.after), (kernels.LAST, self.last), (kernels.GEO, self.geometry),
            (kernels.TABLE, self.table), (kernels.SEGMENTS, self.raw.addresses), (kernels.MARKS, self.marks),
            (kernels.TOPS, self.tops), (kernels.ASIDE, self.aside), (kernels.OPENED, self.opened),
        ):  # fmt: skip
            line[place] = array.__array_interface__["data"][0]
        return line

    # -- accounting --------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Resident bytes: segments written, tables, what waits to be compared, frames kept aside, room to work in."""
        aside = sum(stack.nbytes + 100 for kept in self.prefixes for stack in kept.values())
        marks = self.marks.nbytes * self.rows.filled // self.rows.capacity if self.layout.depth > 1 else 0
        encoder = self.encoder.nbytes if self.encoder else 0
        workers = sum(worker.nbytes for worker in self._workers)
        patterns = sum(pattern.nbytes for pattern in self.patterns.values())
        return (
            self.raw.nbytes
            + self.log.nbytes
            + self.table.nbytes
            + 3 * self.last.nbytes
            + marks
            + aside
            + encoder
            + workers
            + patterns
            + self.models.nbytes
        )

    @property
    def reserved_nbytes(self) -> int:
        """Bytes asked of the system."""
        touched = self.raw.nbytes + self.log.nbytes
        return self.nbytes - touched + self.raw.reserved_nbytes + self.log.reserved_nbytes

    @property
    def spilled_nbytes(self) -> int:
        """Bytes on disk."""
        return sum(arena.spill.nbytes for arena in (self.raw, self.log) if arena.spill)

    def open_segments(self) -> tuple[set[int], set[int]]:
        """Raw and log segments that are still being written to."""
        raw = set()
        for env in range(self.rows.n_envs):
            for block in range(int(self.sealed[env]) + 1, int(self.opened[env]) + 1):
                raw.add(int(self.table[env, self._slot(block), 0]) >> 32)
        return raw, {self._log_segment}

    def clear(self) -> None:
        """Drop every block; keep the memory for what comes."""
        for env in range(self.rows.n_envs):
            for block in range(int(self.first[env]), int(self.opened[env]) + 1):
                if block >= 0:
                    self._free(env, block)
            self.prefixes[env].clear()
        if self._log_segment >= 0:
            self._drop_log(self._log_segment)
            self._log_segment = -1
        self.first[:] = self.opened[:] = self.sealed[:] = -1


def as_bytes(array: npt.NDArray[np.generic], n: int) -> Bytes:
    """An array's bytes, one line for each of its n entries."""
    return array.reshape(n, -1).view(np.uint8) if array.size else np.zeros((n, 1), np.uint8)
