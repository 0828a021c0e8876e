"""Who a process is, who its children are, and who else runs the same command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from rlmem.agent import proc
from rlmem.agent.children import printable
from rlmem.errors import AnalysisError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process by its number and start time; a number that is given again has another start."""

    pid: int
    start: int
    parent: int
    state: str
    command: str
    threads: int = 1

    @property
    def is_zombie(self) -> bool:
        """Ended, and not yet collected by its parent: it holds no memory."""
        return self.state in {"Z", "X", "x"}

    @property
    def is_stopped(self) -> bool:
        """Held by SIGSTOP or a debugger."""
        return self.state in {"T", "t"}


def read_process(pid: int, *, root: str = proc.PROC) -> Process | None:
    """A process as it is now; None when it is gone."""
    words = proc.stat(pid, root)
    if words is None:
        return None
    name = (proc.read(f"{root}/{pid}/comm") or b"?").decode("utf-8", "replace").strip()
    return Process(
        pid=pid,
        start=int(words[proc.START]),
        parent=int(words[proc.PARENT]),
        state=words[proc.STATE].decode("ascii", "replace"),
        command=printable(proc.command(pid, root)) or f"[{printable(name)}]",
        threads=int(words[proc.THREADS]),
    )


def living(pid: int, *, root: str = proc.PROC) -> Process:
    """A process that can be looked at; an error that says why not."""
    if pid <= 0:
        raise UsageError(f"{pid} is not the number of a process")
    process = read_process(pid, root=root)
    if process is None:
        if not os.path.isdir(f"{root}/self"):
            raise AnalysisError(f"there is no {root} on this system: processes can be explained on Linux only")
        raise AnalysisError(f"there is no process {pid}; 'rlmem explain --name TEXT' finds one by its command")
    if process.is_zombie:
        raise AnalysisError(f"process {pid} has ended and waits for its parent {process.parent}: it holds no memory")
    return process


def is_same(process: Process, *, root: str = proc.PROC) -> bool:
    """Whether the process is still there, and not another one with its number."""
    now = read_process(process.pid, root=root)
    return now is not None and now.start == process.start and not now.is_zombie


def every(*, root: str = proc.PROC) -> tuple[Process, ...]:
    """All processes, by number."""
    found = (read_process(pid, root=root) for pid in sorted(proc.pids(root)))
    return tuple(process for process in found if process is not None and not process.is_zombie)


def by_name(text: str, *, root: str = proc.PROC) -> tuple[Process, ...]:
    """Processes whose command holds a text; children of a match are not repeated.

    Left out are ourselves, our parents, and any other rlmem: 'rlmem run -- python train.py' is not train.py.
    """
    processes = {process.pid: process for process in every(root=root)}
    own, pid = set(), os.getpid()
    while pid in processes:
        own.add(pid)
        pid = processes[pid].parent
    own |= {pid for pid, each in processes.items() if _is_rlmem(each.command)}
    found = {pid: each for pid, each in processes.items() if text in each.command and pid not in own}
    return tuple(each for each in found.values() if each.parent not in found)


def _is_rlmem(command: str) -> bool:
    words = command.split()
    programs = [os.path.basename(word) for word in words[:2]]
    return "rlmem" in programs or words[1:3] == ["-m", "rlmem"]


def descendants(pid: int, *, root: str = proc.PROC) -> tuple[Process, ...]:
    """Children and theirs, parents first, without the process itself."""
    found = (read_process(each, root=root) for each in proc.tree(pid, root)[1:])
    return tuple(each for each in found if each is not None and not each.is_zombie)


def siblings(process: Process, *, root: str = proc.PROC) -> tuple[Process, ...]:
    """Other processes of the same user with the same command, which are neither its parents nor its children."""
    owner = _user(process.pid, root)
    kin = {process.pid, process.parent, *(each.pid for each in descendants(process.pid, root=root))}
    return tuple(
        each
        for each in every(root=root)
        if each.command == process.command and each.pid not in kin and _user(each.pid, root) == owner
    )


def _user(pid: int, root: str) -> int | None:
    try:
        return os.stat(f"{root}/{pid}").st_uid
    except OSError:
        return None


def role(pid: int, top: int, parents: Mapping[int, int], commands: Mapping[int, str]) -> str:
    """What a process is in the tree of a Python program, by its command line and its parent's."""
    if pid == top:
        return "main"
    own, parent = commands.get(pid, ""), parents.get(pid, 0)
    if "multiprocessing.resource_tracker" in own:
        return "other"
    if "multiprocessing.forkserver" in own:
        return "worker" if "multiprocessing.forkserver" in commands.get(parent, "") else "forkserver"
    forked = bool(own) and own == commands.get(parent)
    return "worker" if forked or "multiprocessing.spawn" in own or "multiprocessing-fork" in own else "other"
