"""How far a sweep is: a bar with the time left in a terminal, a line per point elsewhere; always on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TextIO


class Tell(Protocol):
    """Says that one more is done, and what it came to."""

    def __call__(self, text: str, /) -> None:
        """One line."""


@contextmanager
def progress(total: int, what: str, stream: TextIO | None = None) -> Iterator[Tell]:
    """A way to tell that one more of ``total`` is done."""
    stream = stream or sys.stderr
    if stream.isatty():
        with _bar(total, what, stream) as tell:
            yield tell
        return
    done = 0

    def say(text: str) -> None:
        nonlocal done
        done += 1
        print(f"[{done}/{total}] {text}", file=stream, flush=True)

    yield say


@contextmanager
def _bar(total: int, what: str, stream: TextIO) -> Iterator[Tell]:
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("elapsed"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # A point can take minutes: the speed is taken over the whole sweep, not over the last half minute.
    with Progress(*columns, console=Console(file=stream), speed_estimate_period=86_400, transient=True) as bar:
        task = bar.add_task(escape(what), total=total)

        def tell(text: str) -> None:
            bar.console.print(escape(text), highlight=False)
            bar.advance(task)

        yield tell


class StepReporter(Protocol):
    """Is called while the work goes on; ``phase`` says what it is at."""

    def __call__(self, sample: object, /) -> None:
        """Some time has passed."""

    def phase(self, text: str, /) -> None:
        """What is going on now."""


class _Spinner:
    def __init__(self, show: Callable[[str], None] = lambda text: None) -> None:
        self.phase = show

    def __call__(self, sample: object, /) -> None:
        """The spinner turns by itself."""


@contextmanager
def spinner(what: str, stream: TextIO | None = None) -> Iterator[StepReporter]:
    """A line that says what is going on and for how long, in a terminal, and is gone at the end; a plain one elsewhere."""
    stream = stream or sys.stderr
    if not stream.isatty():
        print(f"{what} …", file=stream, flush=True)
        yield _Spinner()
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        task = bar.add_task(escape(what), total=None)
        yield _Spinner(lambda text: bar.update(task, description=escape(f"{what}: {text}")))


class Iterations(Protocol):
    """Says how far a training is: an iteration is over, what the one under way is at, and anything else."""

    def over(self, text: str, /) -> None:
        """One more is done, and came to this."""

    def inside(self, text: str, /) -> None:
        """What is going on inside of one that takes long."""

    def say(self, text: str, /) -> None:
        """A line that stays."""


@contextmanager
def iterations(total: int, what: str, *, done: int = 0, stream: TextIO | None = None) -> Iterator[Iterations]:
    """A bar that carries the last result and what is going on, in a terminal; a line an iteration elsewhere."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield _Lines(total, done, stream)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[inside]}"),
    )
    with Progress(*columns, console=Console(file=stream), speed_estimate_period=86_400, transient=True) as bar:
        task = bar.add_task(escape(what), total=total, completed=done, inside="")

        class Live:
            def over(self, text: str) -> None:
                bar.update(task, advance=1, description=escape(text), inside="")

            def inside(self, text: str) -> None:
                bar.update(task, inside=escape(text))

            def say(self, text: str) -> None:
                bar.console.print(escape(text), highlight=False)

        yield Live()


class _Lines:
    """One line each; a reader that went away does not end the training."""

    def __init__(self, total: int, done: int, stream: TextIO) -> None:
        self._total, self._done, self._stream = total, done, stream

    def over(self, text: str) -> None:
        self._done += 1
        self.say(f"[{self._done}/{self._total}] {text}")

    def inside(self, text: str) -> None:
        self.say(f"[{self._done + 1}/{self._total}] … {text}")

    def say(self, text: str) -> None:
        with suppress(OSError, ValueError):
            print(text, file=self._stream, flush=True)


class FileCount:
    """How many files are done, on one line of a terminal, once it has taken a while; gone when all are."""

    PATIENCE_S = 2.0

    def __init__(self) -> None:
        self.start, self.drawn = time.monotonic(), False

    def __enter__(self) -> Callable[[int, int], None]:
        return self._tick

    def _tick(self, done: int, total: int) -> None:
        if done == total:
            self._clear()
        elif time.monotonic() - self.start > self.PATIENCE_S and sys.stderr.isatty():
            self.drawn = True
            print(f"\rlinted {done} of {total} files", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self.drawn = False

    def __exit__(self, *error: object) -> None:
        self._clear()
