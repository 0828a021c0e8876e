"""Putting batches together: what compiled code has to be told, and the threads that help with large ones."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rlmem.buffers import reading
from rlmem.buffers.codec import Bytes, Ints
from rlmem.buffers.column import Column, as_bytes
from rlmem.errors import AnalysisError

if TYPE_CHECKING:
    from rlmem.buffers.store import Store

Array = npt.NDArray[Any]
#: Each thread is worth it for this much of a batch.
SHARE_BYTES = 256 << 10
#: Rows a thread takes at a time are about this much, so that all are done at about the same time.
CHUNK_BYTES = 128 << 10


class Crew:
    """Threads of this process that help with batches, whichever store they are of.

    They wait in compiled code and never need the GIL, which the thread that asks for help is holding. Nobody waits for one
    that comes late: it looks at the call, finds it closed, and leaves. So calls are never freed, only used again.
    """

    def __init__(self) -> None:
        self._count = 0
        self._calls: list[Ints] = []
        self._free: list[Ints] = []
        self._reader, self._writer = -1, -1

    def call(self, owner: object) -> Ints:
        """A call for as long as its owner lives."""
        made = self._free.pop() if self._free else np.zeros(reading.CALL, np.int64)
        if not any(made is call for call in self._calls):
            self._calls.append(made)
        weakref.finalize(owner, self._free.append, made)
        return made

    def help(self, threads: int, address: int) -> None:
        """Let some threads know of a call."""
        if self._reader < 0:
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._writer, False)
        while self._count < threads:
            self._count += 1
            threading.Thread(target=reading.serve, args=(self._reader,), name="rlmem-gather", daemon=True).start()
        with contextlib.suppress(BlockingIOError):  # thousands of calls nobody had time for
            os.write(self._writer, struct.pack("q", address) * threads)

    def forked(self) -> None:
        """In a new process: threads do not live on in it, not even those that were at work on a call."""
        self._count, self._reader = 0, -1
        for call in self._calls:
            call[[reading.OPEN, reading.CAME, reading.LEFT]] = 0


CREW = Crew()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CREW.forked)


def address_of(array: npt.NDArray[np.generic]) -> int:
    """Where an array's bytes are."""
    return int(array.__array_interface__["data"][0])


class Gatherer:
    """Reads a store. The lines that describe its columns are kept until something they point at has moved."""

    def __init__(self, store: Store, threads: int) -> None:
        self._store, self.threads = store, threads
        self._known: tuple[Any, ...] = ()
        self._lines = np.zeros((0, reading.LINE), np.int64)
        self._rooms = np.zeros((0, 0), np.int64)
        self._call = CREW.call(self)
        self._address = address_of(self._call)

    def reset(self) -> None:
        """Rows or columns have been replaced: look again."""
        self._known = ()

    def _look(self) -> None:
        """Write down where everything is, unless that is known."""
        rows, columns = self._store.rows, self._store.columns
        known = tuple([(column, column.moves) for column in columns.values()])
        if known == self._known:
            return
        self._known, self._rooms = known, self._rooms[:0]
        self._lines = np.array([_line(column) for column in columns.values()]).reshape(-1, reading.LINE)
        call = self._call
        for place, array in (
            (reading.HEADS, rows.heads), (reading.ANCHORS, rows.anchors), (reading.BITS, rows.bits),
            (reading.OLD_ANCHORS, rows.old_anchors), (reading.OLD_BITS, rows.old_bits), (reading.COLUMNS, self._lines),
        ):  # fmt: skip
            call[place] = address_of(array)
        call[reading.N_ENVS], call[reading.WORDS] = rows.n_envs, rows.anchors.shape[1]
        call[reading.N_COLUMNS] = len(self._lines)

    def gather(
        self,
        slots: Ints,
        envs: Ints,
        out: Mapping[str, Array],
        after: Mapping[str, Array],
        later: Ints,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Fill batches; all rows asked for have been written. What there is to do ``meanwhile`` is done while others begin."""
        n = slots.size
        if not n:
            if meanwhile:
                meanwhile()
            return
        self._look()
        call, columns, nbytes, coded = self._call, self._store.columns, 0, False
        patches: dict[str, Bytes] = {}
        for line, (key, column) in zip(self._lines, columns.items(), strict=True):
            now, then = out.get(key), after.get(key)
            line[reading.OUT] = 0 if now is None else address_of(now)
            line[reading.AFTER] = 0 if then is None else address_of(then)
            nbytes += (0 if now is None else now.nbytes) + (0 if then is None else then.nbytes)
            coded |= column.encoder is not None
            if column.layout.depth > 1:
                patches[key] = np.zeros(n, np.uint8)
                line[reading.PATCH] = address_of(patches[key])
        order = np.argsort(self._store.rows.units_of(slots, envs) + (envs << 40)) if coded else None
        threads = min(self.threads, max(1, nbytes // SHARE_BYTES), n)
        workers = self._workers(threads)
        chunk = n if threads == 1 else max(1, min(n // (4 * threads), CHUNK_BYTES * n // max(nbytes, 1)))
        call[reading.THREADS : reading.CHUNK + 1] = (
            threads, -1, n, address_of(slots), address_of(later), address_of(envs), 0 if order is None else address_of(order), chunk
        )  # fmt: skip
        call[reading.WORKERS], call[reading.POS] = address_of(workers), self._store.rows.pos
        reading.begin(self._address)
        left = 0
        try:
            if threads > 1:
                CREW.help(threads - 1, self._address)
            if meanwhile:
                meanwhile()
            left = n
        finally:
            reading.finish(self._address, left)
        if call[reading.DAMAGED] >= 0:
            row = int(slots[call[reading.DAMAGED]])
            raise AnalysisError(f"a stored block of row {row} is damaged and cannot be decoded")
        for key, patch in patches.items():
            if patch.any():
                for batch, bit, rows in ((out, 1, slots), (after, 2, later)):
                    if key in batch:
                        columns[key].patch(as_bytes(batch[key], n), patch, bit, rows, envs)

    def _workers(self, threads: int) -> Ints:
        """The rooms of each thread in each column."""
        if len(self._rooms) < threads:
            columns = self._store.columns.values()
            self._rooms = np.array([[c.worker_address(me) for c in columns] for me in range(threads)], np.int64)
        return self._rooms


def _line(column: Column) -> Ints:
    line = np.zeros(reading.LINE, np.int64)
    for place, array in (
        (reading.GEO, column.geometry), (reading.TABLE, column.table), (reading.SEGMENTS, column.raw.addresses),
        (reading.LOG, column.log.addresses), (reading.PATTERNS, column.pattern_addresses), (reading.MARKS, column.marks),
        (reading.MODELS, column.models.addresses),
    ):  # fmt: skip
        line[place] = address_of(array)
    return line
