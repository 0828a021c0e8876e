"""Every process of the machine and its parent, kept up to date cheaply: only new numbers are looked at."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from rlmem.agent import proc
from rlmem.process.tree import Stat, read_stat
from rlmem.watch.pacing import Pacer


class Census:
    """Parents by process. Several watches share one."""

    def __init__(
        self, *, interval_s: float = 1.0, root: str = proc.PROC, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.root = root
        self._clock = clock
        self._known: dict[int, Stat] = {}
        self._pacer = Pacer("census", 0.5, interval_s)

    def refresh(self) -> None:
        """Look for new processes, unless that was done just now."""
        now = self._clock()
        if not self._pacer.is_due(now):
            return
        with self._pacer.work(now):
            there = set(proc.pids(self.root))
            known = {pid: stat for pid, stat in self._known.items() if pid in there}
            for pid in there - known.keys():
                stat = read_stat(pid, self.root)
                if stat is not None:
                    known[pid] = stat
            self._known = known

    def below(self, pids: Iterable[int]) -> list[tuple[int, int]]:
        """Number and start of every process beneath some others, parents first."""
        children: dict[int, list[int]] = {}
        for pid, stat in self._known.items():
            children.setdefault(stat.parent, []).append(pid)
        found, frontier = list[tuple[int, int]](), list(pids)
        while frontier:
            frontier = [child for pid in frontier for child in sorted(children.get(pid, ()))]
            found += ((pid, self._known[pid].start) for pid in frontier)
        return found
