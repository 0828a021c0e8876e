"""What a remedy is: a function from a run to changes of it, with its class and its price."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rlmem.capacity import over
from rlmem.core.plan import Plan
from rlmem.core.subject import Subject

#: What a change touches, the mildest first. lossless: the learner sees the same numbers; speed: it sees the same, or all
#: but the same, later; learning: it sees something else.
KINDS = ("lossless", "speed", "learning")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What has to fit."""

    #: It is enough that the expected peak fits; otherwise the upper bound has to.
    expected: bool = False
    #: The device that has to fit; ``None``: all of them.
    device: str | None = None

    def is_over(self, plan: Plan) -> bool:
        """Whether a plan is above a limit."""
        return over(plan, expected=self.expected, device=self.device) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A remedy's answer: other values of a run's fields, and how they are written in a program."""

    values: Mapping[str, Any]
    how: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One row of the table."""

    name: str
    kind: str
    title: str
    #: What it costs, in a sentence.
    costs: str
    find: Callable[[Subject, Goal], Change | None]
    #: How many times as long training takes; ``None`` when nobody knows, and ``basis`` says where the figure is from.
    slowdown: float | None
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A remedy applied: what changed, and the run before and after it."""

    remedy: Remedy
    change: Change
    #: The values that were there, as the framework resolved them; ``None`` for none.
    old: Mapping[str, Any]
    before: Subject
    after: Subject

    @property
    def saves(self) -> dict[str, int]:
        """Bytes saved at the expected peak, by device; ``plan(before) − plan(after)``, so it can be negative."""
        return {
            top.device: top.expected_bytes - (now.expected_bytes if now else 0)
            for top in self.before.plan.tops
            for now in (self.after.plan.top(top.device),)
        }


#: Steps on one run, each applied to what the one before it left.
Steps: TypeAlias = tuple[Step, ...]


def slowdown_of(steps: Steps) -> float | None:
    """Return how many times as long training takes with all steps; ``None`` when one of them is unknown."""
    product = 1.0
    for step in steps:
        if step.remedy.slowdown is None:
            return None
        product *= step.remedy.slowdown
    return product


def changes_of(steps: Steps) -> dict[str, Any]:
    """Return all values that differ from what was asked for at first."""
    return {path: value for step in steps for path, value in step.change.values.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What steps have to keep to: fields to leave alone, classes of change that are allowed, the most slowdown."""

    keep: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = KINDS
    max_slowdown: float | None = None

    def allow(self, steps: Steps) -> bool:
        """Whether these steps are acceptable; a slowdown that nobody knows is not under any limit."""
        if any(step.remedy.kind not in self.kinds or self.keep & set(step.change.values) for step in steps):
            return False
        if self.max_slowdown is None:
            return True
        slowdown = slowdown_of(steps)
        return slowdown is not None and slowdown <= self.max_slowdown


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleStep:
    """A remedy by itself on the run as it is."""

    step: Step
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The answer: the run before, the steps that make it fit or come closest, and every remedy by itself."""

    start: Subject
    #: The chosen steps; none when the run fits already, or when nothing helps.
    steps: Steps = ()
    #: ``already`` (nothing to do), ``fits`` (with its upper bound), ``expected`` (only as expected), ``no``, ``unknown``
    #: (a limit with no figure to hold against it) or ``grows`` (a leak, which no step makes fit).
    status: str
    alone: tuple[SingleStep, ...] = ()
    #: Every step that leaves learning alone; none when the run fits as it is.
    mild: Steps = ()

    @property
    def end(self) -> Subject:
        """The run with all steps."""
        return self.steps[-1].after if self.steps else self.start

    @property
    def left_over(self) -> dict[str, int]:
        """Bytes still above the limit at the upper bound, by device."""
        plan = self.end.plan
        excess = {top.device: over(plan, device=top.device) for top in plan.tops}
        return {device: size for device, size in excess.items() if size > 0}
