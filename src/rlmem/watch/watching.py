"""Several watches at once: stepped together, each with its own verdict, its peak, and the thresholds asked for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlmem.agent import proc
from rlmem.core.moments import Moment
from rlmem.watch.census import Census
from rlmem.watch.sampling import Ended, Watch
from rlmem.watch.session import Frame, Session
from rlmem.watch.thresholds import Thresholds


@dataclass(slots=True)
class Watched:
    """A session that is watched, with its latest frame and its largest moment."""

    session: Session
    frame: Frame | None = None
    peak: Moment | None = None
    end: str = ""
    warned: bool = False


class Watching:
    """Everything that was asked for. ``frames`` may be read from another thread."""

    def __init__(self, sessions: Sequence[Session], thresholds: Thresholds | None = None) -> None:
        self.targets = [Watched(session) for session in sessions]
        self.thresholds = thresholds or Thresholds()
        #: Why to end with a failure, once there is a reason.
        self.failure = ""
        self._said: list[str] = []

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The latest of each that is still there."""
        return tuple(target.frame for target in self.targets if target.frame is not None and not target.end)

    @property
    def is_over(self) -> bool:
        """Nobody is left, or a threshold was passed."""
        return bool(self.failure) or all(target.end for target in self.targets)

    def step(self) -> tuple[Frame, ...]:
        """One sample of each."""
        for target in self.targets:
            if target.end:
                continue
            try:
                target.frame = target.session.step()
            except Ended as error:
                target.end = str(error)
                target.session.decide(has_ended=True)
                self._said.append(target.end)
                continue
            moment = target.frame.moment
            if target.peak is None or moment.tree_bytes > target.peak.tree_bytes:
                target.peak = moment
            self._compare(target, target.frame)
        return self.frames

    def say(self) -> list[str]:
        """What happened since the last call: ends and warnings."""
        said, self._said = self._said, []
        return said

    def ask_now(self) -> None:
        """Ask for owners at the next sample."""
        for target in self.targets:
            target.session.watch.ask_now()

    def _compare(self, target: Watched, frame: Frame) -> None:
        warning = self.thresholds.warning(frame.moment.tree_bytes, frame.moment.limit_bytes)
        if warning and not target.warned:
            self._said.append(f"warning: {frame.title} {warning}")
        target.warned = bool(warning)
        why = self.thresholds.failure(frame.moment, frame.judgement)
        if why and not self.failure:
            self.failure = f"{frame.title} {why}"


def watch_all(
    pids: Sequence[int] = (),
    *,
    cgroups: Sequence[Path] = (),
    interval_s: float = 1.0,
    owners: bool = True,
    thresholds: Thresholds | None = None,
    clock: Callable[[], float] = time.monotonic,
    root: str = proc.PROC,
) -> Watching:
    """A watch of each process with its descendants, and of each cgroup; one look at the machine's processes for all."""
    census = Census(interval_s=interval_s, root=root, clock=clock)
    sessions = []
    for pid in dict.fromkeys(pids):
        watch = Watch((pid,), interval_s=interval_s, owners=owners, census=census, clock=clock, root=root)
        sessions.append(Session(watch, pid=pid, census=census, interval_s=interval_s, clock=clock))
    for path in dict.fromkeys(cgroups):
        watch = Watch(cgroup=path, interval_s=interval_s, owners=owners, census=census, clock=clock, root=root)
        sessions.append(Session(watch, interval_s=interval_s, clock=clock))
    return Watching(sessions, thresholds)
