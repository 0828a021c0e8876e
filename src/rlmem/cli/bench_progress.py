"""How far a benchmark is, on standard error: a line that is rewritten in a terminal, a line a profile elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlmem.agent.protocol import ProgramStatus
    from rlmem.app.bench import BenchRequest, Listener
    from rlmem.process.sampler import Sample
    from rlmem.programs.bench import Benched
    from rlmem.programs.bench_runs import BenchRunning
    from rlmem.report.progress import Tell
    from rlmem.sources.profiles import Profile


def _say_known(running: BenchRunning) -> None:
    if running.known:
        print(
            f"rlmem: {running.known} of {len(running.profiles)} profiles are known from run {running.run.id}, which was "
            "interrupted; --fresh trains them again",
            file=sys.stderr,
        )


@contextmanager
def show_progress(request: BenchRequest, running: BenchRunning) -> Iterator[Listener]:
    """Say how far a benchmark is: the steps of a profile here, the profiles that have ended in a cluster."""
    _say_known(running)
    if request.cluster is None:
        steps = Progress(running.left, request.timesteps)
        try:
            yield steps
        finally:
            steps.clear()
        return
    from rlmem.report.progress import progress

    with progress(len(running.left), "training") as tell:
        yield Ends(tell)


class Ends:
    """Says what each profile came to, in the order they end."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def begin(self, name: str) -> None:
        """A profile starts."""

    def tick(self, sample: Sample, status: ProgramStatus) -> None:
        """Called about ten times a second while a profile runs."""

    def end(self, benched: Benched) -> None:
        """A profile is over."""
        where = f" on {benched.point.node}" if benched.point.node else ""
        self._tell(f"{benched.profile.name}: {result_text(benched)}{benched.point.wall_s:,.0f} s{where}")


class Progress:
    """A line that says how far a benchmark is and what is left of it: rewritten in a terminal, one a profile elsewhere."""

    def __init__(self, profiles: tuple[Profile, ...], timesteps: int) -> None:
        self.total, self.timesteps = len(profiles), timesteps
        self.index, self.name = 0, ""
        self.taken: list[float] = []
        self.start = 0.0
        self.live = sys.stderr.isatty()

    def begin(self, name: str) -> None:
        """A profile starts."""
        self.index, self.name, self.start = self.index + 1, name, time.monotonic()
        if self.live:
            self._line("starting")

    def tick(self, sample: Sample, status: Mapping[str, Any]) -> None:
        """Called about ten times a second while a profile runs."""
        if not self.live:
            return
        from rlmem.units import format_size

        told = status.get("progress")
        if not told or not told["seconds"]:
            self._line(str(status.get("phase", "starting")))
            return
        rate = told["done"] / told["seconds"]
        self._line(
            f"{told['done']:,} of {told['of']:,} steps, {rate:,.1f} steps/s, {format_size(sample.tree_bytes)}, "
            f"{left_text(self._left(told['done'] / told['of']))} left"
        )

    def end(self, benched: Benched) -> None:
        """A profile is over."""
        self.taken.append(time.monotonic() - self.start)
        self.clear()
        more = self.total - self.index
        left = f"; {left_text(more * sum(self.taken) / len(self.taken))} left" if more else ""
        print(
            f"[{self.index}/{self.total}] {self.name}: {result_text(benched)}{self.taken[-1]:,.0f} s{left}",
            file=sys.stderr,
        )

    def clear(self) -> None:
        """Take the line away."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr, flush=True)

    def _left(self, share: float) -> float:
        """Seconds left: this profile at its own pace, the others at the mean of those that are over, else at its."""
        spent = time.monotonic() - self.start
        whole = spent / max(share, 1e-6)
        others = sum(self.taken) / len(self.taken) if self.taken else whole
        return max(whole - spent, 0.0) + (self.total - self.index) * others

    def _line(self, text: str) -> None:
        print(f"\r\033[K[{self.index}/{self.total}] {self.name}: {text}", end="", file=sys.stderr, flush=True)


def result_text(benched: Benched) -> str:
    """``92.1 steps/s, peak 900 MiB, ``, as far as there is a result."""
    from rlmem.units import format_size

    point = benched.point
    speed = f"{benched.steps_per_s:,.1f} steps/s, " if benched.steps_per_s else ""
    peak = "" if point.peak_bytes is None else f"peak {format_size(point.peak_bytes)}, "
    ended = "" if point.is_ok else f"{point.status}: {point.note}, "
    return f"{ended}{speed}{peak}"


def left_text(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
