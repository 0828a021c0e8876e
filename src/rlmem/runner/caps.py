"""The kernel's help in holding a cap: a memory cgroup for the child alone, where we may make one.

The sampler's watchdog holds every cap; a cgroup with a limit 5 % above it is a backstop for a child that is faster,
finds processes that hide from everything else, says for certain that a kill was for want of memory, and keeps a peak.
That peak includes the page cache of files the child read or wrote and what the kernel keeps for it, and leaves out
pages that somebody else touched first, so it is a second opinion and not the measurement.

A cgroup is made where the right to do so was given: in a v2 subtree delegated to this user (as systemd does), or in the
directory that ``RLMEM_CGROUP`` names (v1 or v2). Root may write anywhere, which is not the same as being given a place:
other programs' cgroups are left alone. Failing to make one is never an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlmem.process import cgroup
from rlmem.process.files import parse_pairs, parse_whole, read_text

ROOT = Path("/")
VARIABLE = "RLMEM_CGROUP"
#: The limit stands this far above the cap, so that the watchdog comes first and can say how much it was.
BACKSTOP = 1.05
REMOVE_SECONDS = 2.0
#: Joins the cgroup before the program starts, so that not a page of it is charged elsewhere.
_LAUNCHER = '{ echo $$ > "$0"; } 2> /dev/null; exec "$@"'
#: Files for the limit, the peak and the count of kills; and those that are set along with the limit.
_FILES = {
    cgroup.V2: ("memory.max", "memory.peak", "memory.events"),
    cgroup.V1: ("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control"),
}
_ALONG = {
    cgroup.V2: (("memory.swap.max", "0"), ("memory.oom.group", "1")),
    cgroup.V1: (("memory.memsw.limit_in_bytes", ""),),  # the same limit, for memory and swap together
}


def oom_kills(level: cgroup.Level) -> int:
    """Processes of this cgroup that the kernel ended for want of memory, of whatever limit."""
    return parse_pairs(read_text(level.path / _FILES[level.version][2])).get("oom_kill", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A cgroup made for one child; ``own`` is False for the one we are in ourselves, which is only read."""

    level: cgroup.Level
    own: bool
    kills_before: int = 0

    def launch(self, command: Sequence[str]) -> list[str]:
        """The command, joining the cgroup first."""
        if not self.own:
            return list(command)
        return ["/bin/sh", "-c", _LAUNCHER, str(self.level.path / "cgroup.procs"), *command]

    def pids(self) -> tuple[int, ...]:
        """Who is in it."""
        text = read_text(self.level.path / "cgroup.procs") if self.own else None
        return tuple(int(word) for word in (text or "").split() if word.isdecimal())

    def peak_bytes(self) -> int | None:
        """The most it ever held; None where the kernel does not keep that (v2 before Linux 5.19)."""
        return parse_whole(read_text(self.level.path / _FILES[self.level.version][1])) if self.own else None

    def killed(self) -> bool:
        """Whether the kernel ended one of its processes for want of memory."""
        return oom_kills(self.level) > self.kills_before

    def remove(self) -> bool:
        """Take it away; the kernel may need a moment after the last process."""
        deadline = time.monotonic() + REMOVE_SECONDS
        while self.own and self.level.path.is_dir():
            with suppress(OSError):
                self.level.path.rmdir()
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True


def make_group(
    job: str,
    cap_bytes: int | None,
    *,
    root: Path = ROOT,
    named: str | None = None,
    delegated: Callable[[Path], bool] | None = None,
) -> Group | None:
    """A cgroup for the child, else the one we are in, to be read only; None where there is none."""
    levels = cgroup.levels(root=root, controller="memory")
    for place in _places(levels, named, delegated or _is_delegated):
        group = _make(place, f"rlmem-{job}", cap_bytes)
        if group:
            return group
    leaf = next((level for level in levels if level.is_leaf and _knows_memory(level)), None)
    return Group(level=leaf, own=False, kills_before=oom_kills(leaf)) if leaf else None


def _places(levels: Sequence[cgroup.Level], named: str | None, delegated: Callable[[Path], bool]) -> list[cgroup.Level]:
    if named:
        path = Path(named)
        version = cgroup.V2 if (path / "cgroup.controllers").exists() else cgroup.V1
        return [cgroup.Level(version=version, path=path, is_leaf=False)]
    places = []
    for level in (level for level in levels if level.version == cgroup.V2):
        if not delegated(level.path):
            break
        if "memory" in (read_text(level.path / "cgroup.subtree_control") or "").split():
            places.append(level)
        if parse_whole(read_text(level.path / "memory.max")) is not None:
            break  # beside this one the child would be out of a limit that was set for us
    return places


def _is_delegated(path: Path) -> bool:
    """Writable without being root, or marked so by systemd."""
    if os.geteuid() != 0:
        return os.access(path, os.W_OK) and os.access(path / "cgroup.procs", os.W_OK)
    try:
        return os.getxattr(path, "user.delegate") == b"1"
    except (OSError, AttributeError):
        return False


def _knows_memory(level: cgroup.Level) -> bool:
    return (level.path / _FILES[level.version][2]).exists()


def _make(place: cgroup.Level, name: str, cap_bytes: int | None) -> Group | None:
    level = cgroup.Level(version=place.version, path=place.path / name, is_leaf=True)
    try:
        level.path.mkdir()
    except OSError:
        return None
    group = Group(level=level, own=True)
    if cap_bytes is None:
        return group
    limit = str(int(cap_bytes * BACKSTOP))
    try:
        _write(level.path / _FILES[level.version][0], limit)
    except OSError:
        group.remove()
        return None
    # No room in swap either, and the tree ends as one; a kernel without these files does without.
    for file, text in _ALONG[level.version]:
        with suppress(OSError):
            _write(level.path / file, text or limit)
    return group


def _write(path: Path, text: str) -> None:
    with open(path, "r+", encoding="ascii") as file:  # never creates: the kernel's files are there or they are not
        file.write(text)
