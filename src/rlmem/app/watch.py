"""Running processes watched until they end: what is seen of them, and when there is something to say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from rlmem.core.moments import Moment
from rlmem.documents.moment import MOST_OWNERS, MemberPart, MomentDocument, judgement_part, moment_part
from rlmem.documents.parts import part_of
from rlmem.documents.watch import MessagePart, NotePart, SeenPart, WatchedPart, WatchEndPart, WatchEvent
from rlmem.errors import UsageError
from rlmem.process.processes import by_name
from rlmem.units import parse_duration
from rlmem.watch.session import Frame
from rlmem.watch.thresholds import Thresholds, parse_level
from rlmem.watch.watching import Watched, Watching, watch_all

#: What hears of everything there is to tell.
Tell = Callable[[WatchEvent], None]
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchRequest:
    """Which processes to watch, how often, for how long, and what to warn of; texts are those of a command line.

    Attributes:
        pids: numbers of processes.
        names: parts of commands of processes.
        cgroups: folders of cgroups.
        interval_s: time between samples.
        duration: when to end.
        every: time between two moments of one target that are told; a change of its verdict is told at once. Without
            one, every moment is.
        asks_owners: whether agents are asked which objects hold the memory.
        warn_at: a size, or a share of the limit, that is told of.
        fail_at: one that ends the watch with a failure.
        fail_on: verdicts that do.
        port: where Prometheus finds the figures; 0 takes a free one.
        host: the address of that port.
    """

    pids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    cgroups: tuple[Path, ...] = ()
    interval_s: float = 1.0
    duration: str | None = None
    every: str | None = None
    asks_owners: bool = True
    warn_at: str | None = None
    fail_at: str | None = None
    fail_on: tuple[str, ...] = ()
    port: int | None = None
    host: str = LOOPBACK


class LiveTargets:
    """The targets of a watch, sampled when a dashboard asks for it."""

    def __init__(self, watching: Watching, *, interval_s: float = 1.0, seconds: float | None = None) -> None:
        self._watching = watching
        self.interval_s, self.seconds = interval_s, seconds

    def __len__(self) -> int:
        return len(self._watching.targets)

    @property
    def is_over(self) -> bool:
        """Nobody is left, or a threshold was passed."""
        return self._watching.is_over

    def step(self) -> None:
        """Take one sample of each."""
        self._watching.step()

    def ask_now(self) -> None:
        """Ask for owners at the next sample."""
        self._watching.ask_now()

    def target(self, index: int) -> WatchedPart:
        """Return what there is to draw of a target."""
        target = self._watching.targets[index]
        return WatchedPart(
            target=target.session.watch.title,
            last=latest_document(target.frame, datetime.now()) if target.frame else None,
            moments=tuple(target.session.history.moments),
            end=target.end,
        )


def watch(request: WatchRequest, tell: Tell, *, draw: Callable[[LiveTargets], bool] | None = None) -> WatchEndPart:
    """Watch until all targets have ended, the time is over, a threshold was passed, or somebody pressed Ctrl-C.

    Args:
        request: what to watch.
        tell: hears of every moment that is due, of notes, warnings and ends as they come, and of the end of the watch.
        draw: shows the targets itself and returns when that is over; false where it cannot, and ``tell`` hears of them.

    Returns:
        The end of the watch, which ``tell`` has heard of.

    Raises:
        UsageError: a word that is no number, a name without a process, a cgroup that is not there, nothing to watch, a
            time or a size that is none, a port that is taken.
        AnalysisError: a process that cannot be looked at.
        KeyboardInterrupt: Ctrl-C before anything was seen.
    """
    for_s = parse_duration(request.duration) if request.duration else None
    every_s = parse_duration(request.every) if request.every else 0.0
    watching = _open(request)
    with _exported(request, watching) as url:
        if url:
            tell(MessagePart(text=f"serving {url}", is_aside=True))
        if draw is None or not draw(LiveTargets(watching, interval_s=request.interval_s, seconds=for_s)):
            try:
                _tell_all(watching, tell, interval_s=request.interval_s, for_s=for_s, every_s=every_s)
            except KeyboardInterrupt:
                if not any(target.frame for target in watching.targets):
                    raise
                tell(
                    MessagePart(text="", is_aside=True)
                )  # what follows is on a line of its own, after the terminal's ^C
        end = _end(watching)
        tell(end)
    return end


def _open(request: WatchRequest) -> Watching:
    """Return the watch of all targets, not begun yet."""
    thresholds = Thresholds(
        warn_at=parse_level(request.warn_at, "--warn-at") if request.warn_at else None,
        fail_at=parse_level(request.fail_at, "--fail-at") if request.fail_at else None,
        fail_on=request.fail_on,
    )
    return watch_all(
        _pids(request),
        cgroups=request.cgroups,
        interval_s=request.interval_s,
        owners=request.asks_owners,
        thresholds=thresholds,
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


@contextmanager
def _exported(request: WatchRequest, watching: Watching) -> Iterator[str]:
    """Serve figures where that is asked for, and yield where."""
    if request.port is None:
        yield ""
        return
    from rlmem.watch.prometheus import Exporter

    exporter = Exporter(request.port, lambda: watching.frames, host=request.host)
    exporter.start()
    try:
        yield exporter.url
    finally:
        exporter.stop()


def _tell_all(watching: Watching, tell: Tell, *, interval_s: float, for_s: float | None, every_s: float) -> None:
    begin = due = time.monotonic()
    next_due: dict[str, float] = {}
    states: dict[str, str] = {}
    noted: set[tuple[str, str]] = set()
    while not watching.is_over and (for_s is None or time.monotonic() - begin < for_s):
        for frame in watching.step():
            now = time.monotonic()
            for note in frame.moment.notes:
                if (frame.title, note) not in noted:
                    noted.add((frame.title, note))
                    tell(NotePart(target=frame.title, text=note))
            state = frame.judgement.state
            changed, states[frame.title] = states.get(frame.title, state) != state, state
            if now >= next_due.get(frame.title, 0.0) or changed:
                next_due[frame.title] = now + every_s - interval_s / 2
                tell(moment_document(frame, datetime.now()))
        for text in watching.say():
            tell(MessagePart(text=text, is_aside=text.startswith("warning")))
        due = max(due + interval_s, time.monotonic())
        if not watching.is_over:
            time.sleep(max(0.0, due - time.monotonic()))


def _end(watching: Watching) -> WatchEndPart:
    remarks = tuple(watching.say())
    targets = tuple((target.session.watch.title, _seen(target)) for target in watching.targets)
    return WatchEndPart(remarks=remarks, targets=targets, failure=watching.failure)


def _seen(target: Watched) -> SeenPart | None:
    """What was seen of a target, with a verdict on all of it."""
    if target.frame is None or target.peak is None:
        return None
    return SeenPart(
        seconds=target.frame.moment.at_s,
        peak_bytes=target.peak.tree_bytes,
        peak_at_s=target.peak.at_s,
        judgement=judgement_part(target.session.decide(has_ended=bool(target.end))),
    )


def moment_document(frame: Frame, when: datetime) -> MomentDocument:
    """Return one moment as a line of JSON has it: with owners where they were asked for this time."""
    return _document(frame, when, frame.moment, most_owners=MOST_OWNERS)


def latest_document(frame: Frame, when: datetime) -> MomentDocument:
    """Return one moment as it is drawn: with owners as they were last seen, and how each of them grows."""
    moment = replace(frame.moment, holdings=frame.holdings, portions=frame.portions)
    return _document(frame, when, moment, most_owners=None)


def _document(frame: Frame, when: datetime, moment: Moment, *, most_owners: int | None) -> MomentDocument:
    return MomentDocument(
        time=when.astimezone().isoformat(timespec="milliseconds"),
        target=frame.title,
        command=frame.command,
        moment=moment_part(moment),
        members=tuple(part_of(MemberPart, member) for member in frame.members),
        judgement=judgement_part(frame.judgement, most_owners=most_owners),
    )
