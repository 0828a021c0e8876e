"""How far a sweep is: a bar with the time left in a terminal, a line per point elsewhere; always on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


@contextmanager
def working(what: str, stream: TextIO | None = None) -> Iterator[Callable[[object], None]]:
    """A line that says what is going on and for how long, in a terminal; a plain one once elsewhere."""
    stream = stream or sys.stderr
    if not stream.isatty():
        print(f"{what} …", file=stream, flush=True)
        yield lambda sample: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as bar:
        bar.add_task(escape(what), total=None)
        yield lambda sample: None
