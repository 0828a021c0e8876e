"""What is around the processes: the limit that will bite, pressure, and the GPUs. Read seldom, as it changes slowly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rlmem.errors import UsageError
from rlmem.process import cgroup, gpus
from rlmem.process.files import parse_pairs, read_text
from rlmem.process.limits import AVAILABLE, PHYSICAL, Limit, read_limits, tightest

ROOT = Path("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cgroup that is watched as a whole: what it cannot give back, and the file cache it can."""

    nbytes: int
    cache_bytes: int


def find_group(path: Path) -> cgroup.Level:
    """The cgroup at a path; its absolute path, or the one below the mount as ``/proc/PID/cgroup`` writes it."""
    candidates = [path, *(Path(mount.point) / str(path).lstrip("/") for mount in cgroup.USUAL_MOUNTS)]
    for place in candidates:
        if (place / "memory.current").is_file():
            return cgroup.Level(version=cgroup.V2, path=place, is_leaf=True)
        if (place / "memory.usage_in_bytes").is_file():
            return cgroup.Level(version=cgroup.V1, path=place, is_leaf=True)
    if any((place / "cgroup.procs").is_file() for place in candidates):
        raise UsageError(f"--cgroup {path}: the memory controller is not enabled there (no memory.current)")
    raise UsageError(f"--cgroup {path}: no such cgroup; give its folder, such as /sys/fs/cgroup/system.slice")


def group_pids(level: cgroup.Level) -> list[int]:
    """Everybody in a cgroup and in those beneath it."""
    found: list[int] = []
    for file in sorted(level.path.rglob("cgroup.procs")):
        found += (int(word) for word in (read_text(file) or "").split() if word.isdigit())
    return sorted(set(found))


def read_group(level: cgroup.Level) -> Group | None:
    """Usage and file cache apart: a memory-mapped buffer is cache, and must not look fatal. None when it is gone."""
    used = cgroup.used_bytes(level)
    if used is None:
        return None
    stat = parse_pairs(read_text(level.path / "memory.stat"))
    prefix = "" if level.version == cgroup.V2 else "total_"
    cache = sum(stat.get(f"{prefix}{name}", 0) for name in ("active_file", "inactive_file"))
    return Group(nbytes=used, cache_bytes=cache)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What the processes may reach in all, and under which limit."""

    nbytes: int
    name: str


def read_bound(pid: int, own_bytes: int, *, group: cgroup.Level | None = None, root: Path = ROOT) -> Bound | None:
    """The limit that leaves the least. Limits on address space are left out: they do not count memory in use."""
    limits = [limit for limit in read_limits(root=root, pid=str(pid)) if _binds(limit, group)]
    bound = tightest(limits, own_bytes=own_bytes)
    if bound is None:
        return None
    return Bound(nbytes=bound.left_bytes(own_bytes=own_bytes), name=_name(bound))


def _binds(limit: Limit, group: cgroup.Level | None) -> bool:
    if limit.kind in {AVAILABLE, PHYSICAL}:
        return True
    if not limit.kind.startswith("cgroup"):
        return False
    folder = Path(limit.detail).parent
    return group is None or folder == group.path or folder in group.path.parents


def _name(limit: Limit) -> str:
    return f"{limit.kind} ({limit.detail})" if limit.kind.startswith("cgroup") else limit.kind


def read_pressure(pid: int, *, group: cgroup.Level | None = None, root: Path = ROOT) -> float | None:
    """The share of the last 10 s in which something waited for memory: of the cgroup, else of the machine."""
    levels = (group,) if group else cgroup.levels(root=root, pid=str(pid), controller="memory")
    leaves = [level.path / "memory.pressure" for level in levels if level.version == cgroup.V2 and level.is_leaf]
    for file in (*leaves, root / "proc/pressure/memory"):
        if (value := parse_pressure(read_text(file) or "")) is not None:
            return value
    return None


def parse_pressure(text: str) -> float | None:
    """``some avg10=2.50 …`` as a share.

    >>> parse_pressure("some avg10=2.50 avg60=0.10 avg300=0.00 total=123\\nfull avg10=0.00")
    0.025
    >>> parse_pressure("") is None
    True
    """
    words = text.partition("\n")[0].split()
    if not words or words[0] != "some":
        return None
    fields = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    try:
        return float(fields["avg10"]) / 100
    except (KeyError, ValueError):
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vram:
    """What the processes take on GPUs, each of them and together, and what they may reach there."""

    by_pid: dict[int, int]
    nbytes: int
    limit_bytes: int | None


def read_vram(pids: Iterable[int]) -> Vram | None:
    """VRAM of some processes; None without a GPU, or where a container hides whose memory it is."""
    cards = gpus.read_gpus()
    if not cards:
        return None
    by_pid, names = dict[int, int](), set[str]()
    for pid in pids:
        if found := gpus.process_vram(pid):
            by_pid[pid] = sum(found.values())
            names.update(found)
    if not by_pid:
        return None
    total = sum(by_pid.values())
    used = [card for card in cards if any(name.startswith(card.name) for name in names)] or list(cards[:1])
    free = [card.free_bytes for card in used]
    limit = total + sum(each or 0 for each in free) if None not in free else None
    return Vram(by_pid=by_pid, nbytes=total, limit_bytes=limit)
