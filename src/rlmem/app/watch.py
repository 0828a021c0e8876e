"""Running processes watched until they end: what is seen of them, and when there is something to say."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

from rlmem.documents.moment import MOST_OWNERS, MemberPart, MomentDocument, judgement_part, moment_part
from rlmem.documents.parts import part_of
from rlmem.errors import UsageError
from rlmem.process.processes import by_name
from rlmem.watch.session import Frame
from rlmem.watch.thresholds import Thresholds
from rlmem.watch.watching import Watched, Watching, watch_all

NO_THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Which processes to watch, how often, for how long, and what to warn of.

    ``pids`` are words of a command line. ``every_s`` is the time between two moments of one target that are due; a change
    of its verdict is due at once.
    """

    pids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    cgroups: tuple[Path, ...] = ()
    interval_s: float = 1.0
    for_s: float | None = None
    every_s: float = 0.0
    asks_owners: bool = True
    thresholds: Thresholds = NO_THRESHOLDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A moment of one target that is due."""

    frame: Frame
    when: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A note on one target, which comes once."""

    title: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The end of a target, or a warning."""

    text: str

    @property
    def is_warning(self) -> bool:
        """Whether it is a threshold that was passed."""
        return self.text.startswith("warning")


Event: TypeAlias = Seen | Noted | Said


def open_watching(request: WatchRequest) -> Watching:
    """Return the watch of all targets of a request, not begun yet.

    Raises:
        UsageError: a word that is no number, a name without a process, a cgroup that is not there, nothing to watch.
        AnalysisError: a process that cannot be looked at.
    """
    return watch_all(
        _pids(request),
        cgroups=request.cgroups,
        interval_s=request.interval_s,
        owners=request.asks_owners,
        thresholds=request.thresholds,
    )


def _pids(request: WatchRequest) -> list[int]:
    pids = []
    for word in request.pids:
        if not (word.isascii() and word.isdecimal()):
            raise UsageError(f"{word[:60]!r} is not the number of a process; --name finds one by its command")
        pids.append(int(word))
    for name in request.names:
        matches = by_name(name)
        if not matches:
            raise UsageError(f"--name {name}: no process has that in its command")
        pids += (process.pid for process in matches)
    if not pids and not request.cgroups:
        raise UsageError("what to watch? Give a PID, --name TEXT or --cgroup PATH")
    return pids


def watch(watching: Watching, request: WatchRequest) -> Iterator[Event]:
    """Sample until all targets have ended, the time is over or a threshold was passed; tell what there is to say."""
    begin = due = time.monotonic()
    next_due: dict[str, float] = {}
    states: dict[str, str] = {}
    noted: set[tuple[str, str]] = set()
    while not watching.is_over and (request.for_s is None or time.monotonic() - begin < request.for_s):
        for frame in watching.step():
            now = time.monotonic()
            for note in frame.moment.notes:
                if (frame.title, note) not in noted:
                    noted.add((frame.title, note))
                    yield Noted(title=frame.title, note=note)
            state = frame.judgement.state
            changed, states[frame.title] = states.get(frame.title, state) != state, state
            if now >= next_due.get(frame.title, 0.0) or changed:
                next_due[frame.title] = now + request.every_s - request.interval_s / 2
                yield Seen(frame=frame, when=datetime.now())
        yield from (Said(text=text) for text in watching.say())
        due = max(due + request.interval_s, time.monotonic())
        if not watching.is_over:
            time.sleep(max(0.0, due - time.monotonic()))


def finish(watching: Watching) -> tuple[tuple[Said, ...], tuple[Watched, ...]]:
    """Return what was not told yet, and the targets with their last verdicts."""
    said = tuple(Said(text=text) for text in watching.say())
    for target in watching.targets:
        if target.frame is not None:
            target.session.decide(has_ended=bool(target.end))
    return said, tuple(watching.targets)


def moment_document(frame: Frame, when: datetime) -> MomentDocument:
    """Return one moment as a line of JSON has it: with owners where they were asked for this time."""
    return MomentDocument(
        time=when.astimezone().isoformat(timespec="milliseconds"),
        target=frame.title,
        command=frame.command,
        moment=moment_part(frame.moment),
        members=tuple(part_of(MemberPart, member) for member in frame.members),
        judgement=judgement_part(frame.judgement, most_owners=MOST_OWNERS),
    )
