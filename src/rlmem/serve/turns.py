"""Who goes first: a picture that somebody waits for is made before capacity, findings and remedies go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm

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


class PatientForm(ClosedForm):
    """Plans that give way, one by one: a remedy takes dozens of them."""

    def __init__(self, constants: Constants | None, turns: Turns) -> None:
        super().__init__(constants)
        self._turns = turns

    def plan(self, asked: RunSpec, budget: Budget) -> Plan:
        """The plan of a run, when nobody waits for another."""
        self._turns.give_way()
        return super().plan(asked, budget)
