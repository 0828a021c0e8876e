"""The largest moment of this process and its children, watched from inside at little cost.

One thread looks once a second, in the way of :mod:`rlmem.process.sampler`: resident pages and ``VmHWM`` of every process, and a
full reading in which shared pages count once. A reading walks the page tables (7 to 16 ms a GB), so there are at most as many as
take a hundredth of the time. ``VmHWM`` begins anew with the watch, where the kernel allows it: what the process held before
and gave back is not counted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable

from rlmem.agent import proc
from rlmem.process.gpus import process_vram, read_gpus
from rlmem.process.sampler import Record, read_pages, read_tree

INTERVAL_SECONDS = 1.0
#: A reading may take a hundredth of the time.
REST = 99


class OwnPeak:
    """Watches until it is stopped; ``others`` names processes that belong too, such as actors of the same trial."""

    def __init__(
        self,
        *,
        interval_s: float = INTERVAL_SECONDS,
        others: Callable[[], Iterable[int]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval, self._others, self._clock = interval_s, others, clock
        self._pid = os.getpid()
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None
        self._record = Record()
        self._next_reading = 0.0
        self._has_gpu = bool(read_gpus())
        self._vram: int | None = None

    def __enter__(self) -> OwnPeak:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> OwnPeak:
        """Begin, or begin anew: what was seen before is forgotten."""
        proc.reset_peak()
        with self._lock:
            self._record, self._next_reading, self._vram = Record(), 0.0, None
        self._look(full=True)
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._watch, name="rlmem-own-peak", daemon=True)
            self._thread.start()
        return self

    @property
    def is_watching(self) -> bool:
        """Between start and stop."""
        return self._thread is not None

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def peak_bytes(self, *, full: bool = False) -> int:
        """The largest so far, this moment included; ``full`` reads every page table once more, whatever it costs."""
        self._look(full=full)
        return self._record.peak_bytes

    @property
    def vram_peak_bytes(self) -> int | None:
        """The largest that the driver counted at a look; ``None`` without a GPU, or where it hides whose memory it is."""
        return self._vram

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            self._look()

    def _look(self, *, full: bool = False) -> None:
        if os.getpid() != self._pid:  # a fork carries the object along, and not the watch
            return
        others = tuple(self._others())
        try:
            tree = dict.fromkeys(proc.trees((self._pid, *others)))
        except OSError:  # no more files may be opened: the run has other worries
            return
        pages = {pid: each for pid in tree if (each := read_pages(pid))}
        with self._lock:
            if self._pid in pages:  # a child's VmHWM may be its parent's, from before it started its own program
                self._record.mark(self._pid, proc.peak(self._pid))
            self._record.look(pages)
            known = self._record.reading.pages if self._record.reading else {}
            # A process that shares nothing with this one is new as a whole, and only a reading counts it so.
            if full or self._clock() >= self._next_reading or any(pid in pages and pid not in known for pid in others):
                cpu = time.thread_time()
                self._record.read(read_tree(pages))
                spent = time.thread_time() - cpu
                self._next_reading = self._clock() + max(self._interval * 0.9, REST * spent)
            if self._has_gpu:
                used = sum(sum(process_vram(pid).values()) for pid in pages)
                self._vram = max(self._vram or 0, used) or None
