"""The largest moment of a tree of processes, watched from outside by two threads.

The first looks every few milliseconds at the resident pages of each process (``statm``, microseconds). The second takes
full readings (``smaps_rollup``, 7 to 16 ms a GB), in which a page shared by several processes counts once: whenever
the summed RSS passes the largest so far by 1 %, and five times a second anyhow, but never for more than a sixth of the
time. Being two, the cap is watched while a reading takes its time.

The rule for the peak, each line a candidate and the largest of them the answer:

- a full reading;
- between readings, the last one plus what changed since: the anonymous pages of all processes, and the file and
  shared pages of the process that gained most, as the others probably map the same ones. A process that came after the
  reading counts with its growth since it was first seen, because a fork shares what it starts with;
- a reading plus ``VmHWM`` − RSS of one process, where ``VmHWM`` rose shortly before it: a spike between two looks. The
  reading is the first one after the rise, or the last one of all. So for a single process the peak is at least
  ``VmHWM`` − (RSS − tree bytes) at the nearest reading. A child may reset its own ``VmHWM``; the largest value seen is
  kept here;
- at the end, ``ru_maxrss`` of the ended child, in the same way for a single process, and as it is for a tree (where
  it may be that of a descendant). It is left out when it is not above rlmem's own peak, which a child inherits between
  fork and exec.

Not seen: a spike of several processes at once that is over between two looks, and pages copied on write between two full
readings. Linux 6.2 to 6.15 counts RSS and ``VmHWM`` per core and in batches, which on a machine with many cores may be
off by tens of MB; full readings are exact.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from rlmem.agent import proc
from rlmem.process.processes import role
from rlmem.process.tree import Tree

LIST_SECONDS = 0.1
HWM_SECONDS = 0.05
READ_SECONDS = 0.2
SETTLED_SECONDS = 0.5
#: A look may take a tenth of the time and a reading a sixth.
LOOK_REST, READ_REST = 9, 5
GROWTH = 1.01
#: A script may start thousands of short commands; the largest processes are enough to tell.
MOST_PROCESSES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPeak:
    """One process of the tree: its own largest RSS, and its share of the tree's largest moment (0: not there then)."""

    pid: int
    role: str
    hwm_bytes: int
    bytes_at_peak: int
    #: Its own largest anonymous memory, and the most pages of files it had mapped (shared with whoever maps them too).
    anonymous_bytes: int = 0
    file_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePeak:
    """The largest moment of a tree. ``cgroup_bytes``, where there is one, includes the page cache of its files."""

    pss_bytes: int = 0
    rss_bytes: int = 0
    processes: tuple[ProcessPeak, ...] = ()
    cgroup_bytes: int | None = None
    samples: int = 0
    #: The most that lay in shared memory at a time, each page once: an object store, observations handed over.
    shared_memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How things stand now, for a progress line."""

    at_s: float
    tree_bytes: int
    rss_bytes: int
    peak_bytes: int
    processes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Resident bytes of one process: its anonymous ones, and those of files and shared memory."""

    anonymous: int
    shared: int

    @property
    def rss(self) -> int:
        """All of them."""
        return self.anonymous + self.shared


NO_PAGES = Pages(anonymous=0, shared=0)


def read_pages(pid: int, root: str = proc.PROC) -> Pages | None:
    """The cheap way; None for a process that is gone."""
    words = (proc.read(f"{root}/{pid}/statm") or b"").split()
    if len(words) < 3 or words[1] == b"0":
        return None
    resident, shared = int(words[1]) * proc.PAGE, int(words[2]) * proc.PAGE
    return Pages(anonymous=max(0, resident - shared), shared=min(shared, resident))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One full reading: what the tree holds together, and for each process its pages and its share."""

    nbytes: int
    pages: Mapping[int, Pages]
    shares: Mapping[int, int]
    files: Mapping[int, int] = field(default_factory=dict)
    shared_memory: int = 0


def read_tree(pids: Iterable[int], root: str = proc.PROC) -> Reading:
    """The figure of ``proc.tree_bytes``, with the RSS seen in the same walk of the pages."""
    nbytes, processes = proc.tree_parts(pids, root)
    pages, shares, files, memory = {}, {}, {}, 0
    for pid, parts in processes.items():
        rss, anonymous = parts.get("Rss", 0), parts.get("Anonymous", 0)
        pages[pid] = Pages(anonymous=anonymous, shared=max(0, rss - anonymous))
        shares[pid] = parts.get("Pss", 0) + parts.get("SwapPss", 0)
        files[pid] = (proc.status(pid, root) or {}).get("RssFile", 0)
        memory += parts.get("Pss_Shmem", 0)
    return Reading(nbytes=nbytes, pages=pages, shares=shares, files=files, shared_memory=memory)


@dataclass(slots=True)
class Record:
    """What was seen so far, by the rule above; no clock and no files."""

    peak_bytes: int = 0
    rss_bytes: int = 0
    samples: int = 0
    hwm: dict[int, int] = field(default_factory=dict)
    shares: Mapping[int, int] = field(default_factory=dict)
    reading: Reading | None = None
    anonymous: dict[int, int] = field(default_factory=dict)
    files: dict[int, int] = field(default_factory=dict)
    shared_memory_bytes: int = 0
    _base: dict[int, Pages] = field(default_factory=dict)
    _last_hwm: dict[int, int] = field(default_factory=dict)
    _risen: dict[int, int] = field(default_factory=dict)

    def look(self, pages: Mapping[int, Pages], settled: Container[int] = ()) -> int:
        """Note resident pages; the tree's bytes as far as they can be told from them.

        ``settled`` are processes that are themselves by now: between fork and exec a process looks as large as its parent.
        """
        self.samples += 1
        rss = sum(each.rss for each in pages.values())
        self.rss_bytes = max(self.rss_bytes, rss)
        for pid, each in pages.items():
            if pid in settled:
                self.anonymous[pid] = max(self.anonymous.get(pid, 0), each.anonymous)
        if self.reading is None:
            return rss
        for pid, each in pages.items():
            self._base.setdefault(pid, each)
        ended = {pid: NO_PAGES for pid in self.reading.pages if pid not in pages}
        changes = [(now, self._base[pid]) for pid, now in (*pages.items(), *ended.items())]
        private = sum(now.anonymous - base.anonymous for now, base in changes)
        shared = max((now.shared - base.shared for now, base in changes), default=0)
        estimate = max(0, self.reading.nbytes + private + shared)
        if estimate > self.peak_bytes:
            grown = {pid: now.anonymous - self._base[pid].anonymous for pid, now in pages.items()}
            self._rise(estimate, {pid: self.reading.shares.get(pid, 0) + more for pid, more in grown.items()})
        return estimate

    def mark(self, pid: int, hwm: int) -> None:
        """Note a process's ``VmHWM``; one that changed waits for the next reading."""
        self.hwm[pid] = max(self.hwm.get(pid, 0), hwm)
        if hwm != self._last_hwm.get(pid):
            self._last_hwm[pid] = hwm
            self._risen[pid] = max(self._risen.get(pid, 0), hwm)

    def read(self, reading: Reading) -> None:
        """Note a full reading, unless everybody was gone by then."""
        if not reading.pages:
            return
        for pid in set(self._risen) - set(reading.pages):  # it ended: the reading before is the nearest
            self._settle({pid: self._risen.pop(pid)})
        self.reading, self._base = reading, dict(reading.pages)
        self.shared_memory_bytes = max(self.shared_memory_bytes, reading.shared_memory)
        for pid, nbytes in reading.files.items():
            self.files[pid] = max(self.files.get(pid, 0), nbytes)
        self._rise(reading.nbytes, reading.shares)
        self._settle(self._risen)
        self._risen = {}

    def close(self, top: int, maxrss: int) -> None:
        """Note the ended child's ``ru_maxrss`` (0: not to be trusted) and settle what is left."""
        if set(self.hwm) <= {top}:
            self.mark(top, maxrss)
        self._settle(self._risen)
        if len(self.hwm) > 1:
            self._rise(maxrss, self.shares)
        if self.reading is None:
            self._rise(max(self.rss_bytes, *self.hwm.values(), 0), self.hwm)

    def _settle(self, risen: Mapping[int, int]) -> None:
        reading = self.reading
        for pid, hwm in risen.items():
            if reading and pid in reading.pages:
                more = hwm - reading.pages[pid].rss
                self._rise(reading.nbytes + more, {**reading.shares, pid: reading.shares.get(pid, 0) + more})

    def _rise(self, nbytes: int, shares: Mapping[int, int]) -> None:
        """Note a larger moment and who held it; the shares add up to it.

        A page of a file that processes outside of the tree map as well is in nobody's share in full: what is missing is
        added to the largest, and what is too much taken from it.
        """
        if nbytes <= self.peak_bytes:
            return
        self.peak_bytes = nbytes
        held = {pid: max(0, share) for pid, share in shares.items()}
        for pid in sorted(held, key=lambda pid: -held[pid]):
            held[pid] = max(0, held[pid] + nbytes - sum(held.values()))
        self.shares = held


class Sampler:
    """Watches a tree until it is stopped; ``on_excess`` is called once, when the tree holds more than the cap."""

    def __init__(
        self,
        tree: Tree,
        *,
        cap_bytes: int | None = None,
        on_excess: Callable[[], None] = lambda: None,
        period_s: float = 0.005,
        root: str = proc.PROC,
    ) -> None:
        self.excess_bytes: int | None = None
        self._tree, self._cap, self._on_excess, self._period, self._root = tree, cap_bytes, on_excess, period_s, root
        self._record = Record()
        self._commands: dict[int, str] = {}
        self._first_seen: dict[int, float] = {}
        self._begin = time.monotonic()
        self._sample = Sample(at_s=0.0, tree_bytes=0, rss_bytes=0, peak_bytes=0, processes=0)
        self._lock, self._stop, self._wanted = threading.Lock(), threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"rlmem-{name}", daemon=True)
            for name, work in (("watch", self._watch), ("read", self._read))
        ]

    @property
    def sample(self) -> Sample:
        """The latest look."""
        return self._sample

    @property
    def is_watching(self) -> bool:
        """False once nobody holds the cap any more."""
        return self._threads[0].is_alive()

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads; the tree is the caller's again."""
        self._stop.set()
        self._wanted.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def peak(self, *, maxrss: int = 0, cgroup_bytes: int | None = None) -> TreePeak:
        """The result, after ``stop``."""
        record, top = self._record, self._tree.top or 0
        record.close(top, maxrss)
        largest = sorted(record.hwm, key=lambda pid: (pid != top, -record.hwm[pid]))[:MOST_PROCESSES]
        return TreePeak(
            pss_bytes=record.peak_bytes,
            rss_bytes=max(record.rss_bytes, *record.hwm.values(), 0),
            processes=tuple(
                ProcessPeak(
                    pid=pid,
                    role=role(pid, top, self._tree.parents, self._commands),
                    hwm_bytes=record.hwm[pid],
                    bytes_at_peak=record.shares.get(pid, 0),
                    anonymous_bytes=record.anonymous.get(pid, 0),
                    file_bytes=record.files.get(pid, 0),
                )
                for pid in largest
            ),
            cgroup_bytes=cgroup_bytes,
            samples=record.samples,
            shared_memory_bytes=record.shared_memory_bytes,
        )

    def _watch(self) -> None:
        next_list = next_hwm = next_read = trigger = 0.0
        while not self._stop.is_set():
            now, cpu = time.monotonic(), time.thread_time()
            if now >= next_list:
                self._list()
                next_list = time.monotonic() + max(LIST_SECONDS, LOOK_REST * (time.thread_time() - cpu))
                cpu = time.thread_time()
            pages = {pid: each for pid in self._tree.pids if (each := read_pages(pid, self._root))}
            settled = {pid for pid in pages if now - self._first_seen.setdefault(pid, now) > SETTLED_SECONDS}
            with self._lock:
                nbytes = self._record.look(pages, settled)
                if now >= next_hwm:
                    for pid in pages:
                        self._record.mark(pid, proc.peak(pid, self._root))
                    next_hwm = now + HWM_SECONDS
            rss = sum(each.rss for each in pages.values())
            self._sample = Sample(
                at_s=now - self._begin,
                tree_bytes=nbytes,
                rss_bytes=rss,
                peak_bytes=max(self._record.peak_bytes, nbytes),
                processes=len(pages),
            )
            if self._cap is not None and nbytes > self._cap and self.excess_bytes is None:
                self.excess_bytes = nbytes
                self._tree.refresh()
                self._on_excess()
            if now >= next_read or rss > trigger * GROWTH:
                next_read, trigger = now + READ_SECONDS, max(trigger, rss)
                self._wanted.set()
            self._stop.wait(max(self._period, LOOK_REST * (time.thread_time() - cpu)))

    def _list(self) -> None:
        with suppress(OSError):  # no more open files allowed: the processes known are still watched
            self._tree.refresh()
        for pid in self._tree.pids:
            self._commands[pid] = proc.command(pid, self._root) or self._commands.get(pid, "")

    def _read(self) -> None:
        while self._wanted.wait() and not self._stop.is_set():
            self._wanted.clear()
            cpu = time.thread_time()
            reading = read_tree(self._tree.pids, self._root)
            with self._lock:
                self._record.read(reading)
            self._stop.wait(READ_REST * (time.thread_time() - cpu))
