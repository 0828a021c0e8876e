"""The processes of one child: found by descent, by the job's mark in their environment, or by its cgroup.

A process that belongs once belongs until it ends, so a daemon that left its parent, its group and its session is
still ours. A process is known by its number and its start time: a number that was given again is a stranger.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from rlmem.agent import proc

#: Marks every descendant of a child; its value is the job's own.
JOB_VARIABLE = "RLMEM_JOB"
#: Helpers that remove shared memory when everybody else is gone; they end by themselves then.
JANITORS = ("multiprocessing.resource_tracker", "torch_shm_manager")
JANITOR_SECONDS = 1.0
_KERNEL_PARENTS = (0, 2)  # init and kernel threads; the latter have no environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """The few words of ``/proc/PID/stat`` that tell who a process is."""

    state: str
    parent: int
    start: int

    @property
    def is_alive(self) -> bool:
        """A zombie holds no memory and cannot be killed again."""
        return self.state not in {"Z", "X", "x"}


def read_stat(pid: int, root: str = proc.PROC) -> Stat | None:
    """A process's parent and start time; None when it is gone."""
    words = proc.stat(pid, root)
    if words is None:
        return None
    return Stat(state=words[proc.STATE].decode(), parent=int(words[proc.PARENT]), start=int(words[proc.START]))


class Tree:
    """The living processes of a job; ``refresh`` looks for new ones and forgets those that ended."""

    def __init__(
        self,
        top: int | None,
        job: str,
        *,
        variable: str = JOB_VARIABLE,
        others: Callable[[], Iterable[int]] = tuple,
        root: str = proc.PROC,
    ) -> None:
        self.top = top
        self.parents: dict[int, int] = {}
        self._mark = f"{variable}={job}".encode()
        self._others = others
        self._root = root
        self._starts: dict[int, int] = {}
        self._strangers: set[int] = set()

    @property
    def pids(self) -> tuple[int, ...]:
        """Who was alive at the last refresh, eldest first."""
        return tuple(self._starts)

    def refresh(self) -> tuple[int, ...]:
        """Look again; only processes not seen before are examined closely."""
        there = set(proc.pids(self._root))
        self._strangers &= there
        for pid in self.pids:
            if not self._is_same(pid):
                del self._starts[pid]
        new = {pid: stat for pid in there - self._strangers - set(self._starts) if (stat := read_stat(pid, self._root))}
        others = set(self._others())
        found = {pid for pid, stat in new.items() if pid == self.top or pid in others or self._is_marked(pid, stat)}
        while found := found | {pid for pid, stat in new.items() if stat.parent in self._starts}:
            self._add({pid: new.pop(pid) for pid in sorted(found)})
            found = set()
        return self.pids

    def kill(self, *, all_of_them: bool = False) -> None:
        """SIGKILL to everybody known who is still the same process; helpers that tidy up are spared at first."""
        for pid in self.pids:
            if self._is_same(pid) and (all_of_them or not self._is_janitor(pid)):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def end(self, *, seconds: float = 10.0) -> bool:
        """Kill until nobody is left; False when some would not die."""
        begin = time.monotonic()
        while self.refresh():
            waited = time.monotonic() - begin
            if waited > seconds:
                return False
            self.kill(all_of_them=waited > JANITOR_SECONDS)
            time.sleep(0.005)
        return True

    def wait(self, seconds: float) -> bool:
        """Give everybody a moment to leave; whether all did."""
        deadline = time.monotonic() + seconds
        while self.refresh():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _add(self, found: dict[int, Stat]) -> None:
        for pid, stat in found.items():
            if stat.is_alive:
                self._starts[pid] = stat.start
                self.parents[pid] = stat.parent
                self._strangers.discard(pid)

    def _is_same(self, pid: int) -> bool:
        stat = read_stat(pid, self._root)
        return stat is not None and stat.is_alive and stat.start == self._starts[pid]

    def _is_janitor(self, pid: int) -> bool:
        command = proc.command(pid, self._root)
        return any(name in command for name in JANITORS)

    def _is_marked(self, pid: int, stat: Stat) -> bool:
        environment = proc.read(f"{self._root}/{pid}/environ")
        if environment and self._mark in environment.split(b"\0"):
            return True
        if environment or environment is None or stat.parent in _KERNEL_PARENTS:
            self._strangers.add(pid)  # an empty environment may be that of a process about to start a program
        return False
