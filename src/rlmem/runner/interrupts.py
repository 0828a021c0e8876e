"""Signals that ask rlmem to end while a child runs: first the child is put away, then the signal takes its course."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, TypeAlias

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: A context in which the signals wait.
Shield: TypeAlias = Callable[[], AbstractContextManager[None]]


class _Stop(BaseException):
    """A signal asked us to end."""


@contextmanager
def stoppable() -> Iterator[Shield]:
    """Ctrl-C, SIGTERM and SIGHUP become an exception here, and take their own course after the clean-up.

    Yields a context in which they wait, so that a second Ctrl-C does not leave half of the tree alive. Signals that were
    ignored stay so; in another thread than the main one nothing can arrive.
    """
    before: dict[int, Any] = {}
    waiting: list[int] = []
    shielded = 0

    def note(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)
        if not shielded:
            raise _Stop

    @contextmanager
    def shield() -> Iterator[None]:
        nonlocal shielded
        shielded += 1
        try:
            yield
        finally:
            shielded -= 1
        if waiting and not shielded:
            raise _Stop

    if threading.current_thread() is threading.main_thread():
        before = {n: old for n in SIGNALS if (old := signal.getsignal(n)) not in {None, signal.SIG_IGN}}
    try:
        for number in before:
            signal.signal(number, note)
        yield shield
    except _Stop:
        pass
    finally:
        shielded += 1
        for number, old in before.items():
            signal.signal(number, old)
    if waiting:
        _take_course(waiting[0], before[waiting[0]])


@contextmanager
def noted() -> Iterator[Callable[[], bool]]:
    """Ctrl-C, SIGTERM and SIGHUP are only noted here, and take their own course at the end; yields whether one came.

    For loops that ask often: nothing is cut in two, a second Ctrl-C does not disturb the clean-up after the first, and a library
    that waits in C does not lose the exception (Ray 2.60 knows KeyboardInterrupt and SystemExit only).
    """
    before: dict[int, Any] = {}
    waiting: list[int] = []
    if threading.current_thread() is threading.main_thread():
        before = {n: old for n in SIGNALS if (old := signal.getsignal(n)) not in {None, signal.SIG_IGN}}
    try:
        for number in before:
            signal.signal(number, lambda number, _frame: waiting.append(number))
        yield lambda: bool(waiting)
    finally:
        for number, old in before.items():
            signal.signal(number, old)
    if waiting:
        _take_course(waiting[0], before[waiting[0]])


def _take_course(number: int, handler: Any) -> None:
    """What the signal would have done: its handler, or the exit code of a program it ended."""
    if callable(handler):
        signal.raise_signal(number)
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
