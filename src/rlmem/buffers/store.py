"""Observations of many steps, each kept once: the part every replay and rollout buffer stands on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rlmem.buffers import choose, stacks
from rlmem.buffers.codec import Bytes, Ints
from rlmem.buffers.column import Column, as_bytes
from rlmem.buffers.gathering import Gatherer
from rlmem.buffers.layout import Layout, raw_block
from rlmem.buffers.options import Options
from rlmem.buffers.rows import Rows
from rlmem.buffers.writing import Writer
from rlmem.errors import AnalysisError

Array = npt.NDArray[Any]
#: The layout is decided when this many transitions, or this many bytes of them, have been seen.
PROBE_TRANSITIONS, PROBE_BYTES = 512, 48 << 20
#: Threads a batch is put together by, unless told otherwise.
MOST_THREADS = 4
#: Share of a budget that pages read back from the spill file may take before they are dropped again.
READ_BACK = 1 / 8
#: Linux maps 16 pages around one that is read from a file.
FAULT_BYTES = 64 << 10


class Store:
    """A ring of rows; each row has an observation for every env and key, and (with ``paired``) the one after it."""

    def __init__(
        self,
        capacity: int,
        keys: Mapping[str, tuple[tuple[int, ...], Any]],
        n_envs: int,
        options: Options,
        *,
        paired: bool = True,
    ) -> None:
        self.options, self.paired, self.n_envs = options, paired, n_envs
        self.rows = Rows(capacity, n_envs)
        self.columns: dict[str, Column] = {}
        self.lock = threading.RLock()
        self.probing = False
        self._read_back = 0
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._gatherer = Gatherer(self, options.threads or min(MOST_THREADS, cores))
        self._owner = os.getpid()
        self._envs = np.arange(n_envs)
        self.notes: list[str] = []
        for key, (shape, dtype) in keys.items():
            layout = Layout(shape=tuple(shape), dtype=np.dtype(dtype))
            layout, decided = self._declared(key, layout)
            self.columns[key] = self._column(key, layout)
            self.probing |= not decided
        self._writer = Writer(self)
        #: Where the next row is to be put: key, observations, next observations; then ``commit``. Hold the lock over both.
        self.staging = self._writer.staging
        self.lend = self._writer.lend
        self.options.check_budget(sum(2 * c.layout.block_bytes + c.log.segment_bytes for c in self.columns.values()))

    # -- layout ------------------------------------------------------------------------------------------------------

    def _declared(self, key: str, layout: Layout) -> tuple[Layout, bool]:
        """The layout as far as it was declared, and whether the data has nothing more to say."""
        layout = self.options.stack_of(key, layout)
        settled = self.options.stack_is_settled(key) or layout.obs_bytes < 2
        block = raw_block(layout.unit_bytes, self.rows.capacity)
        return layout.with_block(block), settled and self.options.codec_of(key) == "none"

    def _column(self, key: str, layout: Layout, **coding: Any) -> Column:
        column = Column(layout, self.rows, paired=self.paired, **coding)
        if column.method is not None and self.options.codec_of(key) == "auto":
            column.on_seal = choose.Watch()
        return column

    def _probe(self) -> None:
        """Look at what has come so far, and lay each key out anew where that is smaller."""
        self.probing = False
        slots = np.repeat(self.rows.in_order(), self.n_envs)
        envs = np.tile(self._envs, self.rows.filled)
        for key, column in self.columns.items():
            obs, after = self._everything(key, column, slots, envs)
            layout = column.layout
            if not self.options.stack_is_settled(key) and layout.obs_bytes > 1:
                found = stacks.recognise(obs, after) if self.paired else self._recognise_rollout(obs)
                if found:
                    layout = self.options.stacked(layout, *found)
            choice = choose.choose(self.options, key, layout, self._stream(layout, obs, after), self.rows.capacity)
            if choice.layout != column.layout or choice.method:
                self._rebuild(key, self._column(key, choice.layout, **choice.coding()), slots, obs, after)

    def _recognise_rollout(self, obs: Array) -> tuple[int, int] | None:
        """A rollout has no next observations, and its episodes break: judge the env and stretch that follow longest."""
        per_env = obs.reshape(-1, self.n_envs, *obs.shape[1:])
        for size in (len(per_env), 64, 16):
            for start in range(0, max(1, len(per_env) - size + 1), size):
                for env in range(min(self.n_envs, 4)):
                    part = per_env[start : start + size, env]
                    found = stacks.recognise(part[:-1], part[1:])
                    if found:
                        return found
        return None

    def _stream(self, layout: Layout, obs: Array, after: Array) -> Bytes:
        """Units in the order they came, env after env, as a sample for the codecs."""
        source = obs if not self.paired else after
        by_env = np.arange(len(source)).reshape(-1, self.n_envs).T.reshape(-1)
        units = source[by_env[:PROBE_TRANSITIONS]]
        if layout.depth > 1:
            step = layout.shape[layout.axis] // layout.depth
            units = np.take(
                units, range(layout.shape[layout.axis] - step, layout.shape[layout.axis]), axis=layout.axis + 1
            )
        return as_bytes(np.ascontiguousarray(units), len(units))

    def _everything(self, key: str, column: Column, slots: Ints, envs: Ints) -> tuple[Array, Array]:
        shape = (slots.size, *column.layout.shape)
        obs = np.empty(shape, column.layout.dtype)
        after = np.empty(shape, column.layout.dtype) if self.paired else obs[:0]
        self.gather(slots, envs, {key: obs}, {key: after} if self.paired else None)
        return obs, after

    def _rebuild(self, key: str, column: Column, slots: Ints, obs: Array, after: Array) -> None:
        """Write everything held into a new column, row by row as it came."""
        envs, n = self._envs, self.n_envs
        lines, following = as_bytes(obs, len(obs)), as_bytes(after, len(after)) if self.paired else None
        before = np.full(n, -2, np.int64)
        for row in range(self.rows.filled):
            slot = int(slots[row * n])
            units = self.rows.units_of(np.full(n, slot), envs)
            column.now[:] = lines[row * n : (row + 1) * n]
            broken = np.full(n, row == 0, np.uint8)
            if following is not None:
                column.after[:] = following[row * n : (row + 1) * n]
                broken = (units != before + 1).astype(np.uint8)
            self._writer.rewrite(column, slot, units, broken)
            before = units
        self.columns[key] = column
        self.relocated()

    # -- writing -----------------------------------------------------------------------------------------------------

    def add(self, obs: Mapping[str, Array], after: Mapping[str, Array] | None = None) -> None:
        """Write one row: arrays of ``(n_envs, *shape)``."""
        with self.lock:
            for key, now, then in self.staging():
                now[...] = obs[key]
                if after is not None:
                    then[...] = after[key]
            self.commit()

    def commit(self) -> None:
        """Write the row that was put into the staging areas."""
        self._writer.commit()
        if self.probing and self._enough():
            self._writer.settle()
            self._probe()

    def settle(self) -> None:
        """Bring the columns' own arrays up to date, before they are read from outside."""
        self._writer.settle()

    def relocated(self) -> None:
        """Rows or columns are new arrays: compiled code has to be told."""
        self._writer.reset()
        self._gatherer.reset()

    def before_more(self) -> None:
        """Called now and then, before rows are written: the place to refuse, and to hold a budget."""
        if self._owner != os.getpid() and self.spilled_nbytes:
            raise AnalysisError(
                "this buffer has spilled to a file of another process; it can be read here, not added to"
            )
        if self.options.budget is not None:
            self._hold_budget()

    def _enough(self) -> bool:
        held = self.rows.filled * self.n_envs
        return (
            held >= PROBE_TRANSITIONS
            or held * sum(c.layout.obs_bytes for c in self.columns.values()) >= PROBE_BYTES
            or (self.rows.filled == self.rows.capacity and held >= 64)
        )

    def _hold_budget(self) -> None:
        budget, folder = self.options.budget, self.options.spill
        assert budget is not None
        assert folder is not None
        room = int(budget * (1 - READ_BACK))
        while self.live_nbytes > room:
            ordered = sorted(
                self.columns.values(),
                key=lambda c: (
                    -max(c.raw.live_segments * c.raw.segment_bytes, c.log.live_segments * c.log.segment_bytes)
                ),
            )
            for column in ordered:
                raw, log = column.open_segments()
                arenas = sorted(
                    ((column.raw, raw), (column.log, log)), key=lambda a: -a[0].live_segments * a[0].segment_bytes
                )
                if any(arena.spill_oldest(folder, still_open) for arena, still_open in arenas):
                    break
            else:
                return

    # -- reading -----------------------------------------------------------------------------------------------------

    def gather(
        self,
        slots: Ints,
        envs: Ints,
        out: Mapping[str, Array] | None,
        after: Mapping[str, Array] | None,
        later: Ints | None = None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Fill batches: observations of ``slots`` and next observations of ``later`` (the same rows unless given).

        ``meanwhile`` is called once, while other threads have begun.
        """
        with self.lock:
            later = slots if later is None else later
            if (
                self.rows.filled < self.rows.capacity
                and slots.size
                and max(slots.max(), later.max()) >= self.rows.filled
            ):
                self._gather_unwritten(slots, envs, out, after, later)
                if meanwhile:
                    meanwhile()
                return
            self._gatherer.gather(slots, envs, out or {}, after or {}, later, meanwhile)
            if self.options.budget is not None:
                rows = slots.size * ((out is not None) + (after is not None))
                self._forget_read_back(
                    sum(rows * max(FAULT_BYTES, 2 * column.layout.block_bytes) for column in self.columns.values())
                )

    def _gather_unwritten(
        self, slots: Ints, envs: Ints, out: Mapping[str, Array] | None, after: Mapping[str, Array] | None, later: Ints
    ) -> None:
        """Rows never written read as zeros, as in a plain buffer."""
        for rows, batch in ((slots, out), (later, after)):
            written = np.flatnonzero(rows < self.rows.filled)
            for key, target in (batch or {}).items():
                part = np.empty((written.size, *target.shape[1:]), target.dtype)
                given = {key: part}
                self.gather(
                    rows[written], envs[written], given if batch is out else None, given if batch is after else None
                )
                target[...] = 0
                target[written] = part

    def _forget_read_back(self, nbytes: int) -> None:
        assert self.options.budget is not None
        self._read_back += nbytes
        if self._read_back > self.options.budget * READ_BACK:
            self._read_back = 0
            for column in self.columns.values():
                for arena in (column.raw, column.log):
                    if arena.spill is not None:
                        arena.spill.forget()

    # -- accounting --------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes in RAM."""
        return self.rows.nbytes + sum(column.nbytes for column in self.columns.values())

    @property
    def live_nbytes(self) -> int:
        """Bytes in RAM less segments that are free to be used again."""
        free = sum(
            arena.nbytes - arena.addresses.nbytes - arena.live_segments * arena.segment_bytes
            for column in self.columns.values() for arena in (column.raw, column.log)
        )  # fmt: skip
        return self.nbytes - free

    @property
    def reserved_nbytes(self) -> int:
        """Bytes asked of the system."""
        rows = self.rows.anchors.nbytes + self.rows.bits.nbytes
        return rows + sum(column.reserved_nbytes for column in self.columns.values())

    @property
    def spilled_nbytes(self) -> int:
        """Bytes on disk."""
        return sum(column.spilled_nbytes for column in self.columns.values())

    def clear(self) -> None:
        """Forget every row; layouts and memory stay."""
        with self.lock:
            for column in self.columns.values():
                column.clear()
            self.rows.clear()
            self._writer.reset()
