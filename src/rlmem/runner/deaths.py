"""What is left of processes that died: their exceptions, and the kernel's counters and limits of where they ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlmem.agent import proc
from rlmem.agent.protocol import DeathNote
from rlmem.errors import UsageError
from rlmem.process import cgroup
from rlmem.process.files import parse_pairs, read_text
from rlmem.process.limits import Limit, parse_rlimits, read_limits
from rlmem.runner.caps import oom_kills
from rlmem.units import parse_size

ROOT = Path("/")
#: What numpy, torch, the C library and C++ say when they get no memory, in exceptions of any type: a worker's own often
#: comes as another one.
_REFUSED = ("MemoryError", "can't allocate memory", "Cannot allocate memory", "std::bad_alloc")
_KERNEL_NAMES = {"Max address space": "RLIMIT_AS", "Max data size": "RLIMIT_DATA"}
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_INSTALLED = re.compile(r"^.*/(?:(?:site|dist)-packages|lib/python3\.\d+)/")
_SIZES = (
    re.compile(r"[Uu]nable to allocate ([\d.]+ ?[KMGTP]i?B)"),  # numpy
    re.compile(r"[Tt]ried to allocate ([\d.]+ ?[KMGTP]?i?B|\d+ bytes)"),  # torch, CPU and CUDA
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """The kernel's counts of processes it ended for want of memory: per cgroup, and on the whole machine."""

    groups: Mapping[str, int]
    machine: int | None = None

    def with_new(self, later: Kills) -> Kills:
        """The same, with cgroups that the process has moved to since."""
        return Kills(groups={**later.groups, **self.groups}, machine=self.machine)

    def risen(self, later: Kills) -> tuple[str, ...]:
        """Where it did so in between, the innermost cgroup first; ``machine`` for one outside of our cgroups."""
        groups = [path for path, count in later.groups.items() if count > self.groups.get(path, count)]
        groups.sort(key=len, reverse=True)
        host = self.machine is not None and later.machine is not None and later.machine > self.machine
        return tuple(groups) or (("machine",) if host else ())


def read_kills(pid: int, *, root: Path = ROOT, known: Kills | None = None) -> Kills:
    """Count for a process's cgroups; ``known`` names them once the process is gone."""
    if known is None:
        levels = cgroup.levels(root=root, pid=str(pid), controller="memory")
    else:
        v2 = [(Path(path), (Path(path) / "memory.events").exists()) for path in known.groups]
        levels = tuple(
            cgroup.Level(version=cgroup.V2 if new else cgroup.V1, path=path, is_leaf=False) for path, new in v2
        )
    machine = parse_pairs(read_text(root / "proc/vmstat")).get("oom_kill")
    return Kills(groups={str(level.path): oom_kills(level) for level in levels}, machine=machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """An exception that nobody caught, as the process left it."""

    pid: int
    type: str
    message: str = ""
    kinds: tuple[str, ...] = ()
    #: The innermost frame, and the innermost in the program's own files.
    where: str | None = None
    line: str | None = None
    #: The traceback of another process that it was brought from.
    remote: str | None = None
    thread: str = ""
    worker: str | None = None
    phase: str = ""
    step: int | None = None
    #: Resource limits on memory that the process had, by name.
    limits: Mapping[str, int] = field(default_factory=dict)
    #: Of a MemoryError: what the kernel goes by when it promises memory.
    kernel: Mapping[str, int] = field(default_factory=dict)
    at: float = 0.0

    @property
    def place(self) -> str | None:
        """Where it was raised, the program's own line first: ``train.py:7 (numpy/_core/numeric.py:232)``."""
        frames = _FRAME.findall(self.remote or "")
        own = [frame for frame in frames if not _is_installed(frame[0])]
        inner = f"{frames[-1][0]}:{frames[-1][1]}" if frames else self.where
        line = f"{own[-1][0]}:{own[-1][1]}" if own else None if frames else self.line
        if not inner or not line or _is_same_place(inner, line):
            return line or inner
        return f"{line} ({_INSTALLED.sub('', inner)})"

    @property
    def memory(self) -> str | None:
        """``cuda`` or ``ram`` for want of which it ended; None for another reason."""
        if "OutOfMemoryError" in self.kinds or "CUDA out of memory" in self.message:
            return "cuda"
        told = f"{self.message}{self.remote or ''}"
        if "MemoryError" in self.kinds or any(words in told for words in _REFUSED):
            return "ram"
        return None

    @property
    def wanted_bytes(self) -> int | None:
        """What it asked for when there was no more, where the message says."""
        for pattern in _SIZES:
            if match := pattern.search(f"{self.message}{self.remote or ''}"):
                # numpy writes "512. MiB"; whatever else a message may say, its size is an extra.
                with suppress(UsageError):
                    return parse_size(match[1].replace(" bytes", "B").replace(". ", "").replace(" ", ""))
        return None


def _is_installed(file: str) -> bool:
    return file.startswith("<frozen") or bool(_INSTALLED.match(file))


def _is_same_place(one: str, other: str) -> bool:
    """Whether both are one line of a file, which one of them names from where the program runs."""
    return one == other or one.endswith(f"/{other}") or (other.startswith("..") and one.endswith(other.lstrip("./")))


def read_death(data: DeathNote) -> Death:
    """A death as the agent wrote it down; what this version does not know is left out."""
    known: dict[str, Any] = {name: value for name, value in data.items() if name in Death.__slots__}
    return Death(**{**known, "kinds": tuple(known.get("kinds", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A process that a signal ended, and what was seen of it when it was last looked at."""

    pid: int
    signal: int
    #: The process of the run that sent it; None for somebody else, and for one that did it to itself.
    sender: int | None = None
    command: str = ""
    #: The command itself, not a process that it started.
    is_main: bool = False
    held_bytes: int | None = None
    #: The most address space it had.
    space_bytes: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


class Bounds:
    """Resource limits on memory of each process, and the address space it had; by process, also after its end."""

    def __init__(self) -> None:
        self.limits: dict[int, Mapping[str, int]] = {}
        self.space_bytes: dict[int, int] = {}

    def look(self, pids: Iterable[int]) -> None:
        """Two small files of each process, and one more where it has a limit."""
        for pid in pids:
            found = parse_rlimits(read_text(ROOT / f"proc/{pid}/limits") or "")
            if limits := {name: found[text] for text, name in _KERNEL_NAMES.items() if text in found}:
                self.limits[pid] = limits
                if peak := (proc.status(pid) or {}).get("VmPeak"):
                    self.space_bytes[pid] = peak

    def forget(self, pid: int) -> None:
        """One that ended long ago."""
        self.limits.pop(pid, None)
        self.space_bytes.pop(pid, None)


class Places:
    """The limits and cgroups a process has had; looked at ever more seldom, as they hardly change once it runs."""

    def __init__(self, pid: int) -> None:
        self._pid, self._next = pid, 0.0
        self._kills = read_kills(pid)
        self._limits: dict[tuple[str, str], Limit] = {}
        self.look(0.0)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """Every limit that was seen."""
        return tuple(self._limits.values())

    def look(self, at_s: float) -> None:
        """Look again, when it is time: a launcher moves to a cgroup, a program sets limits of its own."""
        if at_s < self._next:
            return
        self._next = min(max(2 * at_s, at_s + 0.5), at_s + 60.0)
        self._kills = self._kills.with_new(read_kills(self._pid))
        self._limits |= {(limit.kind, limit.detail): limit for limit in read_limits(pid=str(self._pid))}

    def risen(self) -> tuple[str, ...]:
        """Where the kernel has ended processes for want of memory since."""
        return self._kills.risen(read_kills(self._pid, known=self._kills))
