"""The processes of one child: found by descent, by the job's mark in their environment, or by its cgroup.

A process that belongs once belongs until it ends, so a daemon that left its parent, its group and its session is
still ours. A process is known by its number and its start time: a number that was given again is a stranger.

An orphan without the mark (started with an environment of its own, by a parent that ended before anybody looked) is
found where the kernel gives orphans to us: see :func:`adopt_orphans`.
"""

from __future__ import annotations

import ctypes
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
_SET_CHILD_SUBREAPER = 36  # prctl(2), Linux 3.4


def adopt_orphans(wanted: bool) -> bool:
    """Whether orphans among our descendants become our children instead of init's from now on, or no longer."""
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0) == 0)
    return False


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


def _nobody(_pid: int) -> bool:
    return False


class Tree:
    """The living processes of a job; ``refresh`` looks for new ones and forgets those that ended."""

    def __init__(
        self,
        top: int | None,
        job: str,
        *,
        variable: str = JOB_VARIABLE,
        others: Callable[[], Iterable[int]] = tuple,
        adopts: bool = False,
        root: str = proc.PROC,
    ) -> None:
        self.top = top
        self.parents: dict[int, int] = {}
        #: Orphans that were given to us and have ended, with their wait status.
        self.collected: dict[int, int] = {}
        self._adopts = adopts
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
        others = set(self._others()) | self._adopted(new)
        found = {pid for pid, stat in new.items() if pid == self.top or pid in others or self._is_marked(pid, stat)}
        while found := found | {pid for pid, stat in new.items() if stat.parent in self._starts}:
            self._add({pid: new.pop(pid) for pid in sorted(found)})
            found = set()
        return self.pids

    def terminate(self, pids: Iterable[int]) -> None:
        """SIGTERM to some of the tree, but not to helpers that tidy up; one that is stopped takes it when it goes on."""
        for pid in pids:
            if pid in self._starts and self._is_same(pid) and not self._is_janitor(pid):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
                    os.kill(pid, signal.SIGCONT)

    def kill(self, *, all_of_them: bool = False, but: Callable[[int], bool] = _nobody) -> None:
        """SIGKILL to everybody known who is still the same process; helpers that tidy up are spared at first."""
        for pid in self.pids:
            if not but(pid) and self._is_same(pid) and (all_of_them or not self._is_janitor(pid)):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)

    def end(self, *, seconds: float = 10.0, but: Callable[[int], bool] = _nobody) -> bool:
        """Kill until nobody is left but those who may stay; False when some would not die."""
        begin = time.monotonic()
        while not all(map(but, self.refresh())):
            waited = time.monotonic() - begin
            if waited > seconds:
                return False
            self.kill(all_of_them=waited > JANITOR_SECONDS, but=but)
            time.sleep(0.005)
        return True

    def wait(self, seconds: float, *, but: Callable[[int], bool] = _nobody) -> bool:
        """Give everybody but those who may stay a moment to leave; whether all did."""
        deadline = time.monotonic() + seconds
        while not all(map(but, self.refresh())):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def has_left(self, pid: int) -> bool:
        """Whether a process left the terminal on purpose: by a session of its own, or by nohup."""
        with suppress(OSError):
            if os.getsid(pid) != os.getsid(0):
                return True
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # we were started so ourselves, and all inherit it
            return False
        text = proc.read(f"{self._root}/{pid}/status") or b""
        ignored = next((line.split()[1] for line in text.splitlines() if line.startswith(b"SigIgn:")), b"0")
        return bool(int(ignored, 16) >> (signal.SIGHUP - 1) & 1)

    def _adopted(self, new: dict[int, Stat]) -> set[int]:
        """Orphans that live; those that have ended are collected, as nobody else would."""
        found: set[int] = set()
        for pid, stat in new.items():
            if not self._adopts or stat.parent != os.getpid() or pid == self.top:
                continue
            with suppress(OSError):
                if os.getpgid(pid) == os.getpgrp():  # rlmem's own; the command's have left our group with it
                    continue
                if stat.is_alive:
                    found.add(pid)
                elif (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    self.collected[pid] = ended[1]
        return found

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
