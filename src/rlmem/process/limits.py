"""What this process may really use: cgroup limits up the tree, resource limits, and the memory there is.

``read_limits()`` lists every bound it finds with where it was read; nothing missing or forbidden is an error.
``smallest`` is the lowest bound, ``tightest`` the one that leaves a run the least once others' memory counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from rlmem.process import cgroup
from rlmem.process.files import parse_pairs, parse_whole, read_text, shown
from rlmem.units import ABSURD_BYTES, KIB

ROOT = Path("/")
AVAILABLE, PHYSICAL = "available memory", "physical memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One bound on memory; ``used_bytes`` is what already counts against it, where that can be read."""

    kind: str
    nbytes: int
    detail: str
    used_bytes: int | None = None

    def left_bytes(self, *, own_bytes: int = 0) -> int:
        """What a run may reach in all under this bound, if ``own_bytes`` of what is used are its own."""
        if self.kind == AVAILABLE:
            return self.nbytes + own_bytes
        others = max(0, (self.used_bytes or 0) - own_bytes)
        return max(0, self.nbytes - others)


def read_limits(*, root: Path = ROOT, pid: str = "self", rlimit_as: int | None = None) -> tuple[Limit, ...]:
    """Every memory limit on a process, cgroups first.

    ``rlimit_as`` stands in for the address-space limit that would be read; -1 means infinite.
    """
    return (
        *_cgroup_limits(root, pid),
        *_resource_limits(root, pid, rlimit_as),
        *_memory_limits(root),
    )


def smallest(limits: Iterable[Limit]) -> Limit | None:
    """The lowest bound, whatever already counts against it; the first of equals."""
    return min(limits, key=lambda limit: limit.nbytes, default=None)


def standing(limits: Iterable[Limit]) -> Limit | None:
    """The lowest bound that does not move with what else runs: all but what is available now, unless that is all there is."""
    known = tuple(limits)
    return smallest(limit for limit in known if limit.kind != AVAILABLE) or smallest(known)


def tightest(limits: Iterable[Limit], *, own_bytes: int = 0) -> Limit | None:
    """The bound that leaves the run the least, counting what others hold; the first of equals."""
    return min(limits, key=lambda limit: limit.left_bytes(own_bytes=own_bytes), default=None)


def _cgroup_limits(root: Path, pid: str) -> Iterator[Limit]:
    for level in cgroup.levels(root=root, pid=pid, controller="memory"):
        limits = _v2_limits(level) if level.version == cgroup.V2 else _v1_limits(level)
        for kind, nbytes, file in limits:
            if nbytes is not None and nbytes < ABSURD_BYTES:
                # memory.stat tells of a level that may not be visible, and neither may what is used there.
                used = None if file == "memory.stat" else cgroup.used_bytes(level)
                yield Limit(kind=kind, nbytes=nbytes, detail=shown(root, level.path / file), used_bytes=used)


def _v2_limits(level: cgroup.Level) -> Iterator[tuple[str, int | None, str]]:
    yield "cgroup v2", parse_whole(read_text(level.path / "memory.max")), "memory.max"
    # Above memory.high nothing is killed, but every allocation is throttled until the run all but stops.
    yield "cgroup v2 high", parse_whole(read_text(level.path / "memory.high")), "memory.high"


def _v1_limits(level: cgroup.Level) -> Iterator[tuple[str, int | None, str]]:
    # "No limit" is the largest page count in bytes (9223372036854771712 with 4 KiB pages): over ABSURD_BYTES.
    own = parse_whole(read_text(level.path / "memory.limit_in_bytes"))
    # Before Linux 5.11 a parent could be told not to count its children; its limit then does not bind them.
    if level.is_leaf or parse_whole(read_text(level.path / "memory.use_hierarchy")) != 0:
        yield "cgroup v1", own, "memory.limit_in_bytes"
    if level.is_leaf:
        # The least of all ancestors, also of those outside the mount, which no other file here shows.
        above = parse_pairs(read_text(level.path / "memory.stat")).get("hierarchical_memory_limit")
        if above is not None and (own is None or above < own):
            yield "cgroup v1", above, "memory.stat"


def parse_rlimits(text: str) -> dict[str, int]:
    """Finite soft limits in bytes from ``/proc/<pid>/limits``, by the kernel's name for them.

    >>> parse_rlimits("Max address space         4096                 unlimited            bytes")
    {'Max address space': 4096}
    """
    limits = {}
    for line in text.splitlines():
        name, words = line[:25].strip(), line[25:].split()  # the kernel pads the name to 25 columns
        soft = parse_whole(words[0]) if len(words) == 3 and words[2] == "bytes" else None
        if soft is not None and soft < ABSURD_BYTES:
            limits[name] = soft
    return limits


def _resource_limits(root: Path, pid: str, rlimit_as: int | None) -> Iterator[Limit]:
    text = read_text(root / "proc" / pid / "limits")
    found = parse_rlimits(text or "")
    space = found.get("Max address space") if rlimit_as is None else rlimit_as
    if text is None and rlimit_as is None and root == ROOT and pid == "self":
        space = _own_rlimit_as()
    if space is not None and 0 <= space < ABSURD_BYTES:
        detail = "ulimit -v; counts reserved address space, not only memory in use"
        yield Limit(kind="RLIMIT_AS", nbytes=space, detail=detail)
    if (data := found.get("Max data size")) is not None:
        detail = "ulimit -d; counts private writable memory, reserved or in use"
        yield Limit(kind="RLIMIT_DATA", nbytes=data, detail=detail)


def _own_rlimit_as() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def parse_meminfo(text: str) -> dict[str, int]:
    """Bytes by name from ``/proc/meminfo``; the kernel's kB are KiB.

    >>> parse_meminfo("MemTotal:       16 kB\\nHugePages_Total:       2\\nMemFr")
    {'MemTotal': 16384}
    """
    rows = (line.split() for line in text.splitlines())
    sizes = ((row[0].rstrip(":"), parse_whole(row[1])) for row in rows if len(row) == 3 and row[2] == "kB")
    return {name: size * KIB for name, size in sizes if size is not None}


def _memory_limits(root: Path) -> Iterator[Limit]:
    info = parse_meminfo(read_text(root / "proc/meminfo") or "")
    if not info and root == ROOT:
        yield from _psutil_limits()
        return
    available, detail = info.get("MemAvailable"), "/proc/meminfo, MemAvailable"
    if available is None and "MemFree" in info:  # Linux before 3.14, and some emulations of /proc
        # Cached counts shared memory too, which cannot be dropped.
        cache = max(0, info.get("Cached", 0) - info.get("Shmem", 0))
        available, detail = info["MemFree"] + cache, "/proc/meminfo, MemFree + Cached"
    if available is not None:
        yield Limit(kind=AVAILABLE, nbytes=available, detail=detail)
    if (total := info.get("MemTotal")) is not None:
        used = None if available is None else max(0, total - available)
        yield Limit(kind=PHYSICAL, nbytes=total, detail="/proc/meminfo, MemTotal", used_bytes=used)


def _psutil_limits() -> Iterator[Limit]:
    """MacOS and Windows, where there is no ``/proc``."""
    memory = psutil.virtual_memory()
    yield Limit(kind=AVAILABLE, nbytes=memory.available, detail="psutil, available")
    used = max(0, memory.total - memory.available)
    yield Limit(kind=PHYSICAL, nbytes=memory.total, detail="psutil, total", used_bytes=used)


def parse_cpu_list(text: str) -> int:
    """How many CPUs a kernel list names.

    >>> parse_cpu_list("0-3,8,10-11")
    7
    """
    count = 0
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        low, high = parse_whole(first), parse_whole(last or first)
        if low is not None and high is not None:
            count += max(0, high - low + 1)
    return count


def cpu_count(root: Path = ROOT, *, pid: str = "self") -> int:
    """Cores the process may use: its affinity, or a cgroup's CPU quota rounded up where that is less."""
    quotas = (cgroup.cpu_quota(level) for level in cgroup.levels(root=root, pid=pid, controller="cpu"))
    counts = [math.ceil(quota) for quota in quotas if quota is not None]
    return max(1, min([_affinity(root, pid), *counts]))


def _affinity(root: Path, pid: str) -> int:
    if root != ROOT:
        for line in (read_text(root / "proc" / pid / "status") or "").splitlines():
            if line.startswith("Cpus_allowed_list:") and (count := parse_cpu_list(line.partition(":")[2])):
                return count
    elif hasattr(os, "sched_getaffinity"):  # not on macOS or Windows
        # Not Cpus_allowed_list here: it also names CPUs that are possible but not online.
        try:
            return len(os.sched_getaffinity(0 if pid == "self" else int(pid)))
        except OSError:  # the process has gone, or is not ours to ask about
            pass
    return os.cpu_count() or 1
