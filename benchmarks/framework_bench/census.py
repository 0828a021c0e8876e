"""Who held what when a tree of processes held most: the training process, its workers, Ray itself and the object store.

The total is the sampler's of ``rlmem.runner``, which sees short spikes too; this divides its largest full reading. Shared
memory (Ray's object store) is taken out of the processes that map it and counted once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rlmem.agent import proc
from rlmem.core.roles import IDLE, RAY, role_of_title
from rlmem.process.sampler import Sample
from rlmem.process.tree import JOB_VARIABLE, Tree

#: A reading when the tree grew by this much over the largest one, and once a second anyhow.
GROWTH, EVERY_SECONDS = 1.005, 1.0
MAIN, WORKER, OTHER = "main", "worker", "other"
#: Where Ray's own programs lie; a worker that has no title yet is one of them.
_RAYS = ("site-packages/ray/", "dist-packages/ray/")
_HELPERS = ("multiprocessing.resource_tracker", "torch_shm_manager")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process of a reading; its bytes without shared memory, of which ``store_bytes`` is its part."""

    role: str
    nbytes: int
    store_bytes: int
    threads: int = 1


def role(pid: int, top: int, parent: int, commands: Mapping[int, str]) -> str:
    """What a process does: the program itself, a worker of it, Ray's own, or a helper of Python's.

    >>> commands = {1: "python train.py", 2: "python train.py", 3: "ray::IDLE", 4: "/x/raylet/raylet --a", 5: "bash -c x"}
    >>> commands[6] = "ray::SingleAgentEnvRunner.sample"
    >>> [role(pid, 1, 4 if pid == 6 else 1, commands) for pid in commands]
    ['main', 'worker', 'ray', 'ray', 'other', 'worker']
    """
    own = commands.get(pid, "")
    if pid == top:
        return MAIN
    if any(name in own for name in _HELPERS):
        return OTHER
    title = role_of_title(own)
    if title in {RAY, IDLE} or any(place in own for place in _RAYS):
        return RAY
    if own.startswith("ray::"):
        return WORKER
    if "multiprocessing.forkserver" in own:
        return WORKER if "multiprocessing.forkserver" in commands.get(parent, "") else OTHER
    forked = bool(own) and own == commands.get(parent)
    return WORKER if forked or "multiprocessing.spawn" in own else OTHER


def divided(
    total: int, parts: Mapping[int, Mapping[str, int]], roles: Mapping[int, str], threads: Mapping[int, int]
) -> tuple[Member, ...]:
    """A reading by process. Pages of libraries are divided in proportion to PSS, so that all parts add up to the total
    whoever else on the machine maps the same libraries."""
    private = {pid: part.get("Pss_Anon", 0) + part.get("SwapPss", 0) for pid, part in parts.items()}
    store = {pid: part.get("Pss_Shmem", 0) for pid, part in parts.items()}
    files = {pid: part.get("Pss_File", 0) for pid, part in parts.items()}
    counted, mapped = total - sum(private.values()) - sum(store.values()), sum(files.values()) or 1
    return tuple(
        Member(
            role=roles[pid],
            nbytes=private[pid] + counted * files[pid] // mapped,
            store_bytes=store[pid],
            threads=threads.get(pid, 1),
        )
        for pid in parts
    )


class Census:
    """Called at every tick of ``run_child``; keeps the largest reading."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self.members: tuple[Member, ...] = ()
        self.threads = 0
        self._tree: Tree | None = None
        self._next = 0.0

    def __call__(self, sample: Sample) -> None:
        """Read the whole tree, if it may be larger than ever."""
        if time.monotonic() < self._next and sample.tree_bytes < self.total_bytes * GROWTH:
            return
        tree = self._tree = self._tree or _child()
        if tree is None or tree.top is None:
            return
        begin = time.monotonic()
        pids = tree.refresh()
        total, parts = proc.tree_parts(pids)
        counts = _threads(parts)
        self.threads = max(self.threads, counts.get(tree.top, 0))
        if total > self.total_bytes:
            commands = {pid: proc.command(pid) for pid in parts}
            roles = {pid: role(pid, tree.top, tree.parents.get(pid, 0), commands) for pid in parts}
            self.total_bytes, self.members = total, divided(total, parts, roles, counts)
        now = time.monotonic()
        self._next = now + max(EVERY_SECONDS, 5 * (now - begin))

    def of(self, role: str) -> tuple[Member, ...]:
        """The processes of one role, largest first."""
        return tuple(sorted((each for each in self.members if each.role == role), key=lambda each: -each.nbytes))

    @property
    def store_bytes(self) -> int:
        """What lay in shared memory."""
        return sum(each.store_bytes for each in self.members)


def _threads(pids: Iterable[int]) -> dict[int, int]:
    found = {pid: proc.stat(pid) for pid in pids}
    return {pid: int(words[proc.THREADS]) for pid, words in found.items() if words}


def _child() -> Tree | None:
    """The processes of the job that this process has just started, by the mark in their environment."""
    for pid in proc.tree(os.getpid())[1:]:
        for entry in (proc.read(f"{proc.PROC}/{pid}/environ") or b"").split(b"\0"):
            name, _, job = entry.partition(b"=")
            if name == JOB_VARIABLE.encode() and proc.parent(pid) == os.getpid():
                return Tree(pid, job.decode())
    return None
