"""Where a process stands in the cgroup tree: every level from its own up to the mount, leaf first.

A limit may sit on any ancestor, in v2, v1 or (hybrid) both trees, so each level is a directory to read. Three
views of the same place have to be reconciled: the path in ``/proc/<pid>/cgroup``, the root of the mount in
``/proc/self/mountinfo`` (a container mounts a subtree) and the cgroup namespace, which may show ``/`` or
``/../..``. Ancestors above what is mounted cannot be seen at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rlmem.process.files import parse_pairs, parse_whole, read_text, under

V1, V2 = 1, 2
_MOUNTINFO_FIELDS = 5  # id, parent, device, root, mount point; the type comes after a dash


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mounted cgroup tree: the part of it that is mounted (``root``) and where (``point``)."""

    version: int
    root: str
    point: str
    controllers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One cgroup directory that holds the process, itself or as an ancestor of its own."""

    version: int
    path: Path
    is_leaf: bool


#: Where distributions mount the trees; tried when mountinfo cannot be read. Wrong guesses only find no files.
USUAL_MOUNTS = (
    Mount(version=V2, root="/", point="/sys/fs/cgroup"),
    Mount(version=V2, root="/", point="/sys/fs/cgroup/unified"),
    Mount(version=V1, root="/", point="/sys/fs/cgroup/memory", controllers=("memory",)),
    Mount(version=V1, root="/", point="/sys/fs/cgroup/cpu", controllers=("cpu",)),
    Mount(version=V1, root="/", point="/sys/fs/cgroup/cpu,cpuacct", controllers=("cpu",)),
)


def parse_cgroup(text: str) -> dict[str, str]:
    """Controller → path from ``/proc/<pid>/cgroup``; the v2 tree is the controller ``""``.

    >>> parse_cgroup("4:memory:/docker/ab\\n1:cpu,cpuacct:/\\n0::/user.slice\\njunk")
    {'memory': '/docker/ab', 'cpu': '/', 'cpuacct': '/', '': '/user.slice'}
    """
    paths: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")  # a path may itself hold colons
        if not (number.isdecimal() and colon and path.startswith("/")):
            continue
        paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """The cgroup mounts in ``/proc/<pid>/mountinfo``, in order."""
    mounts = []
    for line in text.splitlines():
        head, dash, tail = line.partition(" - ")
        fields, kind = head.split(" "), tail.split(" ")
        if not dash or len(fields) < _MOUNTINFO_FIELDS or kind[0] not in {"cgroup", "cgroup2"}:
            continue
        version = V2 if kind[0] == "cgroup2" else V1
        controllers = tuple(kind[-1].split(",")) if version == V1 else ()
        root, point = _unescape(fields[3]), _unescape(fields[4])
        mounts.append(Mount(version=version, root=root, point=point, controllers=controllers))
    return tuple(mounts)


def _unescape(text: str) -> str:
    """Mountinfo writes space, tab, newline and backslash as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def below(path: str, mount_root: str) -> PurePosixPath | None:
    """Where a cgroup lies inside a mount of ``mount_root``; None when it is not inside, or cannot be told.

    >>> below("/docker/ab/job", "/docker/ab")
    PurePosixPath('job')
    >>> below("/../other", "/") is None and below("/", "/../..") is None
    True
    """
    try:
        inside = PurePosixPath(path).relative_to(PurePosixPath(mount_root))
    except ValueError:
        return None
    return None if ".." in inside.parts else inside


def levels(*, root: Path, pid: str = "self", controller: str) -> tuple[Level, ...]:
    """Every cgroup directory around the process for ``controller``, leaf first, v2 before v1."""
    paths = parse_cgroup(read_text(root / "proc" / pid / "cgroup") or "")
    # Our own mounts, whichever process is asked about: the files are opened by us, at our mount points.
    table = read_text(root / "proc/self/mountinfo") or read_text(root / "proc" / pid / "mountinfo")
    mounts = parse_mountinfo(table or "") or USUAL_MOUNTS
    found: dict[Path, Level] = {}
    for version in (V2, V1):
        own = [m for m in mounts if m.version == version and (version == V2 or controller in m.controllers)]
        path = paths.get("" if version == V2 else controller, "/")
        for level in _climb(own, path, root):
            found.setdefault(level.path, level)
    return tuple(found.values())


def _climb(mounts: list[Mount], path: str, root: Path) -> Iterator[Level]:
    places = [(mount, inside) for mount in mounts if (inside := below(path, mount.root)) is not None]
    if not places and mounts:
        # The namespace hides the way ("/../..", or a mount made outside it). What is mounted is then a
        # container's own top, the nearest level to be seen, so its limits are taken as ours.
        places = [(mounts[0], PurePosixPath())]
    for mount, inside in places:
        top = under(root, mount.point)
        # A path of the host means nothing in a container, so the deepest directory there is counts as ours.
        # os.path.isdir, as Path.is_dir raises where the way is forbidden (Python 3.13 and before).
        found = [top / part for part in (inside, *inside.parents) if os.path.isdir(top / part)]
        for place in found:
            yield Level(version=mount.version, path=place, is_leaf=place == found[0])


def used_bytes(level: Level) -> int | None:
    """What the cgroup holds and cannot drop: its usage less the file cache. Shared memory counts as held.

    tmpfs and shm pages sit on the kernel's anonymous lists, so active_file and inactive_file leave them out.
    """
    stat = parse_pairs(read_text(level.path / "memory.stat"))
    if level.version == V2:
        usage, prefix = parse_whole(read_text(level.path / "memory.current")), ""
    else:  # v1 counts this cgroup alone under the bare names and its children too under total_*
        usage, prefix = parse_whole(read_text(level.path / "memory.usage_in_bytes")), "total_"
    if usage is None:
        return None
    cache = sum(stat.get(f"{prefix}{name}", 0) for name in ("active_file", "inactive_file"))
    return max(0, usage - cache)


def cpu_quota(level: Level) -> float | None:
    """CPUs' worth of time per period the level grants; None when it sets no quota."""
    if level.version == V2:
        words = (read_text(level.path / "cpu.max") or "").split()
    else:
        words = [read_text(level.path / f"cpu.cfs_{name}_us") or "" for name in ("quota", "period")]
    numbers = [parse_whole(word) for word in words]  # "max" and -1 mean no quota, and read as None
    if len(numbers) != 2 or not numbers[0] or not numbers[1]:
        return None
    return numbers[0] / numbers[1]
