"""Why a run died of memory: which limit, what grew before, and the smallest change that would have fit.

Everything is read from what was recorded while it lived, from the exception it left behind, and from the kernel's
counters before and after.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlmem.holdings import Holding
from rlmem.measure import cgroup
from rlmem.measure.files import parse_pairs, read_text
from rlmem.measure.limits import Limit, read_limits, smallest
from rlmem.moments import Moment
from rlmem.runner.caps import oom_kills
from rlmem.runner.guarding import Load
from rlmem.units import format_count, format_size, parse_size
from rlmem.watch.holders import keeper, read_holders
from rlmem.watch.words import DETACH

ROOT = Path("/")
#: What grew is told for the last minutes before the end, or a quarter of a shorter run.
WINDOW_SECONDS = 300.0
#: A change should leave some room: growth between two looks, the allocator, others on the machine.
FIT = 0.95
#: Growth under this share of the whole is not worth a line.
SMALL_SHARE = 0.01
KILLED_EXITS = (-int(signal.SIGKILL), 128 + int(signal.SIGKILL))
_SIZES = (
    re.compile(r"[Uu]nable to allocate ([\d.]+ ?[KMGTP]i?B)"),  # numpy
    re.compile(r"[Tt]ried to allocate ([\d.]+ ?[KMGTP]?i?B|\d+ bytes)"),  # torch, CPU and CUDA
)
_NEWLINE = "\n"
_INDEX = re.compile(r"(\[[^\[\]]*\])+$")


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
    where: str | None = None
    thread: str = ""
    worker: str | None = None
    phase: str = ""
    step: int | None = None
    #: Resource limits on memory that the process had, by name.
    limits: Mapping[str, int] = field(default_factory=dict)
    at: float = 0.0

    @property
    def memory(self) -> str | None:
        """``cuda`` or ``ram`` for want of which it ended; None for another reason."""
        if "OutOfMemoryError" in self.kinds or "CUDA out of memory" in self.message:
            return "cuda"
        if "MemoryError" in self.kinds or "can't allocate memory" in self.message:
            return "ram"
        return None

    @property
    def wanted_bytes(self) -> int | None:
        """What it asked for when there was no more, where the message says."""
        for pattern in _SIZES:
            if match := pattern.search(self.message):
                return parse_size(match[1].replace(" bytes", "B").replace(" ", ""))
        return None


def read_death(data: Mapping[str, Any]) -> Death:
    """A death as the agent wrote it down; what this version does not know is left out."""
    known = {name: data[name] for name in Death.__slots__ if name in data}
    return Death(**{**known, "kinds": tuple(known.get("kinds", ()))})


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What one owner, or the rest, gained in the last part of a run."""

    name: str
    nbytes: int
    now_bytes: int
    items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostMortem:
    """The answer. ``kind`` is ``limit`` (rlmem stopped it), ``oom-killer``, ``memory-error``, ``cuda-oom`` or ``killed``."""

    kind: str
    cause: str
    limit_bytes: int | None = None
    limit_name: str = ""
    window_s: float = 0.0
    grown: tuple[Grown, ...] = ()
    #: Changes under which it would have fit.
    changes: tuple[str, ...] = ()
    #: What else makes it smaller, whether or not that is enough.
    advice: tuple[str, ...] = ()


def find_cause(
    *,
    returncode: int | None,
    stopped_for: Load | None,
    deaths: Sequence[Death],
    kills: Sequence[str],
    moments: Sequence[Moment],
    limits: Iterable[Limit] = (),
) -> PostMortem | None:
    """Which limit it was; None for a run that did not die of memory, as far as can be told."""
    last = moments[-1] if moments else None
    limit, name = (last.limit_bytes, last.limit_name) if last else (None, "")
    if stopped_for is not None:
        cause = f"the limit was near: {stopped_for.sentence()}" if stopped_for.share < 1 else stopped_for.sentence()
        nbytes = stopped_for.limit if stopped_for.what == "RAM" else None
        return PostMortem(kind="limit", cause=cause, limit_bytes=nbytes, limit_name=stopped_for.name)
    memory = [death for death in deaths if death.memory]
    # A worker that was killed may end its parent with an error of its own, so a kill in the command's own cgroups counts
    # with any error. The machine's counter counts everybody's.
    own = [where for where in kills if where != "machine"]
    was_killed = returncode in KILLED_EXITS
    if (own and returncode and (was_killed or returncode > 0)) or (kills and was_killed):
        where = (own or kills)[0]
        found = smallest(each for each in limits if each.detail.startswith(where))
        nbytes = found.nbytes if found else limit
        place = "the machine" if where == "machine" else f"cgroup {where}"
        text = f"ended by the kernel's OOM killer for {place}" + (f" (limit {format_size(nbytes)})" if nbytes else "")
        return PostMortem(kind="oom-killer", cause=text, limit_bytes=nbytes, limit_name=place)
    if memory and returncode:
        return _exception(memory[0], limit, name, last)
    if returncode in KILLED_EXITS:
        near = f"; the tree held {format_size(last.tree_bytes)}" if last else ""
        of = f" of {format_size(limit)} ({name})" if last and limit else ""
        text = f"killed by SIGKILL{near}{of}; no kernel counter of this cgroup says that it was for want of memory"
        return PostMortem(kind="killed", cause=text, limit_bytes=limit, limit_name=name)
    return None


def _exception(death: Death, limit: int | None, name: str, last: Moment | None) -> PostMortem:
    wanted = death.wanted_bytes
    asked = f" when it asked for {format_size(wanted)}" if wanted else ""
    place = f" at {death.where}" if death.where else ""
    who = f" in worker {death.worker}" if death.worker else ""
    if death.memory == "cuda":
        nbytes = last.vram_limit_bytes if last else None
        text = f"CUDA was out of memory{asked}{place}{who}: {_short(death.message)}"
        return PostMortem(kind="cuda-oom", cause=text, limit_bytes=nbytes, limit_name="the GPU")
    if death.limits:
        name, nbytes = min(death.limits.items(), key=lambda item: item[1])
        text = f"{name} of {format_size(nbytes)}, which counts reserved memory too"
    else:
        text, nbytes = "the kernel would not promise that much (overcommit)", limit
    kind = death.type.rpartition(".")[2]
    return PostMortem(
        kind="memory-error", cause=f"{kind}{asked}{place}{who}: {text}", limit_bytes=nbytes, limit_name=name
    )


def examine(found: PostMortem, moments: Sequence[Moment], advice: Sequence[str] = ()) -> PostMortem:
    """The same with what grew before the end, and the changes that would have fit, smallest first."""
    window, grown = what_grew(moments)
    # Stores are counted in resident RAM, which is neither what a GPU has nor what a ulimit counts.
    other = found.kind == "cuda-oom" or found.limit_name.startswith("RLIMIT")
    changes = tuple(fitting_changes(moments, None if other else found.limit_bytes))
    return PostMortem(
        kind=found.kind,
        cause=found.cause,
        limit_bytes=found.limit_bytes,
        limit_name=found.limit_name,
        window_s=window,
        grown=grown,
        changes=changes,
        advice=tuple(advice),
    )


def _short(message: str) -> str:
    """The first line of a message, and of a long one the sentences that are whole."""
    line = message.partition(_NEWLINE)[0]
    return line if len(line) <= 200 else line[:200].rpartition(". ")[0] or line[:200]


def what_grew(moments: Sequence[Moment], window_s: float = WINDOW_SECONDS) -> tuple[float, tuple[Grown, ...]]:
    """Seconds looked back, and what grew in them, largest first; what no owner has is ``the rest``."""
    if len(moments) < 2:
        return 0.0, ()
    end = moments[-1].at_s
    window = min(window_s, max((end - moments[0].at_s) / 4, min(30.0, end - moments[0].at_s)))
    recent = [moment for moment in moments if moment.at_s >= end - window]
    held = read_holders(moments)
    total = recent[-1].tree_bytes - recent[0].tree_bytes
    rows = []
    if held:
        named = [moment for moment in moments if moment.at_s in held]
        late = named[-1]
        # Owners were asked at other times than the ends of the window: like is compared with like. Asked once only, they
        # have gained what they hold since the start.
        early = next((moment for moment in reversed(named) if moment.at_s <= end - window), named[0])
        before = held[early.at_s] if early is not late else ()
        early = early if early is not late else moments[0]
        rows = [row for row in _differences(before, held[late.at_s]) if row.nbytes > 0]
        window, total = late.at_s - early.at_s, late.tree_bytes - early.tree_bytes
        late_total = recent[-1].tree_bytes - late.tree_bytes
        if late_total > SMALL_SHARE * recent[-1].tree_bytes:
            text = f"since owners were last asked ({end - late.at_s:.0f} s before the end)"
            rows.append(Grown(name=text, nbytes=late_total, now_bytes=recent[-1].tree_bytes))
    rest = total - sum(row.nbytes for row in rows if not row.name.startswith("since "))
    rows.append(Grown(name="the rest", nbytes=rest, now_bytes=recent[-1].tree_bytes))
    floor = SMALL_SHARE * max(1, recent[-1].tree_bytes)
    rows = [row for row in rows if row.nbytes >= floor]
    return window, tuple(sorted(rows, key=lambda row: -row.nbytes)[:6])


def _differences(early: Sequence[Holding], late: Sequence[Holding]) -> Iterable[Grown]:
    before = {held.path: held for held in early if held.device == "ram"}
    for held in late:
        if held.device != "ram":
            continue
        old = before.get(held.path)
        items = None if old is None or held.filled is None or old.filled is None else held.filled - old.filled
        gained = held.resident_bytes - (old.resident_bytes if old else 0)
        yield Grown(name=held.path, nbytes=gained, now_bytes=held.resident_bytes, items=items)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Store:
    """Arrays of one container that share their rows."""

    name: str
    rows: int
    nbytes: int
    resident_bytes: int


def stores(holdings: Iterable[Holding]) -> tuple[_Store, ...]:
    """Containers with a known number of rows, largest first: ``model.replay_buffer`` for its arrays."""
    groups: dict[tuple[str, int], list[Holding]] = {}
    for held in holdings:
        if held.capacity and held.device == "ram" and held.nbytes:
            bare = _INDEX.sub("", held.path)
            # A store is told by its arrays (buffer.observations['image']) or as one (buffer).
            name = bare.rpartition(".")[0] if held.kind in {"array", "tensor"} and "." in bare else bare
            groups.setdefault((name, held.capacity), []).append(held)
    found = (
        _Store(
            name=name,
            rows=rows,
            nbytes=sum(held.nbytes for held in parts),
            resident_bytes=sum(held.resident_bytes for held in parts),
        )
        for (name, rows), parts in groups.items()
    )
    return tuple(sorted(found, key=lambda store: -store.nbytes))


def fitting_changes(moments: Sequence[Moment], limit_bytes: int | None) -> tuple[str, ...]:
    """The largest store with as many rows as would have fitted, and containers that should have an end."""
    named = next((moment for moment in reversed(moments) if moment.holdings), None)
    if named is None or named.holdings is None:
        return ()
    lines = []
    if limit_bytes:
        room = int(limit_bytes * FIT)
        for store in stores(named.holdings)[:1]:
            others = max(0, named.tree_bytes - store.resident_bytes)
            rows = int((room - others) * store.rows // max(1, store.nbytes))
            per_row = f"{store.nbytes / store.rows:,.0f} B a row"
            if 0 < rows < store.rows:
                lines.append(
                    f"`{store.name}` with {format_count(_rounded(rows))} rows instead of {format_count(store.rows)} "
                    f"({per_row}, {format_size(others)} beside it) fits {format_size(limit_bytes)} with 5 % to spare"
                )
            elif rows <= 0:
                lines.append(
                    f"no size of `{store.name}` ({per_row}) fits: without it the run holds {format_size(others)} "
                    f"of {format_size(limit_bytes)}"
                )
    held = read_holders(moments).get(named.at_s, ())
    endless = [each for each in held if each.filled and each.capacity is None and each.device == "ram"]
    lines += [_end(each) for each in endless[:1] if each.resident_bytes > SMALL_SHARE * named.tree_bytes]
    return tuple(lines)


def _end(held: Holding) -> str:
    """What keeps a container without an end from growing."""
    if owner := keeper(held):
        kept = f"{format_count(held.filled or 0)} tensors, about {format_size(held.resident_bytes)} of graphs"
        return f"`{owner}` keeps tensors with the graphs they came from ({kept}): {DETACH}"
    return (
        f"give `{held.path}` ({held.type}, {format_count(held.filled or 0)} items, "
        f"{format_size(held.resident_bytes)}) an end, such as collections.deque(maxlen=…)"
    )


def _rounded(rows: int) -> int:
    """Down to two figures: nobody sets a buffer to 212,347 rows."""
    scale = int(10 ** max(0, len(str(rows)) - 2))
    return rows // scale * scale


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
