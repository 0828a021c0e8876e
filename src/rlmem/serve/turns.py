"""Who goes first: a picture that somebody waits for is made before capacity, findings and remedies go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.core.subject import PlanSource

#: Whoever gives way goes on after this time all the same.
PATIENCE_S = 2.0


class Turns:
    """Threads share one interpreter, so that work beside a picture makes it as much later; this work stops meanwhile."""

    def __init__(self) -> None:
        self._changed, self._pictures, self._own = threading.Condition(), 0, threading.local()

    @contextmanager
    def first(self) -> Iterator[None]:
        """Work that somebody waits for."""
        with self._changed:
            self._pictures += 1
        self._own.is_first = True
        try:
            yield
        finally:
            self._own.is_first = False
            with self._changed:
                self._pictures -= 1
                self._changed.notify_all()

    def give_way(self) -> None:
        """Wait until no picture is being made, unless this is one."""
        if self._pictures and not getattr(self._own, "is_first", False):
            with self._changed:
                self._changed.wait_for(lambda: not self._pictures, PATIENCE_S)


@dataclass(frozen=True, slots=True)
class YieldingSource:
    """Makes plans, and before each waits while a page is being drawn: a remedy takes dozens of them."""

    source: PlanSource
    turns: Turns

    def plan(self, asked: RunSpec, budget: Budget) -> Plan:
        """Return the plan of a run, when nobody waits for another."""
        self.turns.give_way()
        return self.source.plan(asked, budget)
