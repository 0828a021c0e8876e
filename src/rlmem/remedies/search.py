"""The smallest change under which a run fits: lossless steps first, then those that cost speed, then learning.

A class is left only when all its steps together are not enough. Within a class the fewest steps win, then the least
slowdown. Where learning has to change, every milder step that lets it change less is kept, and the others are taken out
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, prod

from rlmem.capacity import over
from rlmem.core.plan import Plan
from rlmem.core.subject import Subject
from rlmem.errors import SpecError
from rlmem.frameworks import find_adapter
from rlmem.remedies import KNOBS, REMEDIES
from rlmem.remedies.base import Alone, Change, Fit, Goal, Remedy, State, Step, Wishes
from rlmem.remedies.finders import lowest
from rlmem.units import MIB

#: A step that costs speed is kept for the sake of a knob when the knob keeps this much more of its value.
WORTH_SHARE = 0.05
#: A milder step is kept when a batch would have to be cut up finer than this without it.
FINER_SHARE = 0.5
#: Where nothing fits, a knob is turned down for the sake of this much.
WORTH_BYTES = 16 * MIB
#: Knobs that change what the policy sees are turned when no other one helps.
_LAST = ("history", "frame_stack")


class Search:
    """Looks for steps on one run.

    ``writable`` says whether all steps of a state can be written down for the user. Lossless steps that can are preferred to
    those that he has to make by hand.
    """

    def __init__(
        self,
        subject: Subject,
        wishes: Wishes | None = None,
        remedies: Sequence[Remedy] = REMEDIES,
        writable: Callable[[State], bool] | None = None,
    ) -> None:
        self.wishes = wishes or Wishes()
        self.remedies = remedies
        self.writable = writable
        self.start = State(subject=subject)

    def fit(self) -> Fit:
        """The smallest change under which the run fits, or what comes nearest."""
        start, plan = self.start, self.start.plan
        if over(plan) <= 0:
            return Fit(start=start, end=start, status="already")
        alone = self.alone()
        mild = self._any(self._any(start, "lossless", expected=False), "speed", expected=False)
        found = self._found(start, expected=False)
        if found is not None:
            return Fit(start=start, end=found, status="fits", alone=alone, mild=mild)
        if over(plan, expected=True) <= 0:  # as expected it fits already
            return Fit(start=start, end=self._closest(mild), status="expected", alone=alone, mild=mild)
        found = self._found(start, expected=True)
        if found is not None:
            return Fit(start=start, end=found, status="expected", alone=alone, mild=mild)
        closest = self._closest(mild)
        status = "expected" if over(closest.plan, expected=True) <= 0 else "no"
        return Fit(start=start, end=closest, status=status, alone=alone, mild=mild)

    # -- one step --------------------------------------------------------------------------------------------------

    def apply(self, state: State, remedy: Remedy, *, expected: bool = False, device: str | None = None) -> State | None:
        """The run with one remedy more; ``None`` where it does not apply, saves nothing, is not wanted, or is refused."""
        if remedy.kind not in self.wishes.kinds:
            return None
        change = remedy.find(state.subject, Goal(expected=expected, device=device))
        if change is None:
            return None
        try:
            after = state.subject.having(change.values)
        except SpecError:
            return None
        if _refused(after.plan) - _refused(state.plan):
            return None
        old = {path: state.plan.spec.get(path) for path in change.values}
        step = Step(remedy=remedy, change=change, old=old, before=state.plan, after=after.plan)
        if max(step.saves.values(), default=0) <= 0:
            return None  # numba, say, takes more than a small store gives back
        steps = (*state.steps, step)
        return State(subject=after, steps=steps) if self.wishes.allow(steps) else None

    def _all(self, state: State, remedies: Iterable[Remedy], *, expected: bool) -> State | None:
        """Every one of some remedies, in order; ``None`` when one of them does not apply."""
        for remedy in remedies:
            found = self.apply(state, remedy, expected=expected)
            if found is None:
                return None
            state = found
        return state

    def _any(self, state: State, kind: str, *, expected: bool, written: bool = False) -> State:
        """As many remedies of a class as apply and make something smaller; with ``written`` those that can be written down."""
        for remedy in self._of(kind):
            found = self.apply(state, remedy, expected=expected)
            if found is None or (written and self.writable is not None and not self.writable(found)):
                continue
            if _helps(state, found):
                state = found
        return state

    def _of(self, kind: str) -> list[Remedy]:
        return [remedy for remedy in self.remedies if remedy.kind == kind]

    def alone(self) -> tuple[Alone, ...]:
        """Every remedy that applies, by itself."""
        states = (self.apply(self.start, remedy) for remedy in self.remedies)
        return tuple(Alone(state=state, fits=over(state.plan) <= 0) for state in states if state is not None)

    # -- the classes -----------------------------------------------------------------------------------------------

    def _found(self, start: State, *, expected: bool) -> State | None:
        most = start
        for written in (True, False) if self.writable else (False,):
            most = self._any(start, "lossless", expected=expected, written=written)
            found = self._smallest(start, most, expected=expected)
            if found is not None:
                return found
        slower = self._any(most, "speed", expected=expected)
        found = self._smallest(most, slower, expected=expected)
        if found is not None:
            return self._pruned(start, found, expected=expected)
        return self._learning(start, slower, expected=expected)

    def _smallest(self, start: State, most: State, *, expected: bool) -> State | None:
        """The fewest of the steps between two states that are enough, and of those the least slow."""
        if over(most.plan, expected=expected) > 0:
            return None
        remedies = [step.remedy for step in most.steps[len(start.steps) :]]
        for size in range(1, len(remedies) + 1):
            states = (self._all(start, chosen, expected=expected) for chosen in combinations(remedies, size))
            fitting = [state for state in states if state is not None and over(state.plan, expected=expected) <= 0]
            if fitting:
                return min(fitting, key=lambda state: (_slow(state), over(state.plan)))
        return most

    def _pruned(self, start: State, end: State, *, expected: bool) -> State:
        """Without the steps that are not needed, or save a batch from being cut up less than twice as fine."""
        for remedy in _slowest_first(end):
            kept = [step.remedy for step in end.steps if step.remedy is not remedy]
            state = self._all(start, kept, expected=expected)
            if state is None or over(state.plan, expected=expected) > 0:
                continue
            if _share(state, "speed") >= _share(end, "speed") * FINER_SHARE:
                end = state
        return end

    def _learning(self, start: State, base: State, *, expected: bool) -> State | None:
        """Milder steps as far as they go, and as little change of learning as possible on top."""
        found = self._turned(base, expected=expected)
        if found is None:
            return None
        for remedy in _slowest_first(base):
            milder = [
                step.remedy for step in found.steps if step.remedy.kind != "learning" and step.remedy is not remedy
            ]
            state = self._all(start, milder, expected=expected)
            without = self._turned(state, expected=expected) if state is not None else None
            worth = WORTH_SHARE if remedy.kind == "speed" else 0
            if without is not None and _share(without, "learning") >= _share(found, "learning") - worth:
                found = without
        return found

    def _turned(self, base: State, *, expected: bool) -> State | None:
        """One change of learning that is enough; else one for each device that is over its limit."""
        if over(base.plan, expected=expected) <= 0:
            return base
        states = [self.apply(base, remedy, expected=expected) for remedy in self._of("learning")]
        fitting = [state for state in states if state is not None and over(state.plan, expected=expected) <= 0]
        if fitting:
            return min(fitting, key=_least_change)
        state = base
        for device in [top.device for top in base.plan.tops]:
            if over(state.plan, expected=expected, device=device) <= 0:
                continue
            here = [self.apply(state, remedy, expected=expected, device=device) for remedy in self._of("learning")]
            enough = [s for s in here if s is not None and over(s.plan, expected=expected, device=device) <= 0]
            if not enough:
                return None
            state = min(enough, key=_least_change)
        return state if over(state.plan, expected=expected) <= 0 else None

    def _closest(self, mild: State) -> State:
        """As near as it gets: every step that makes the run smaller, and each knob as far down as it helps."""
        state = self._any(mild, "learning", expected=False)
        for remedy in self._of("learning"):
            lower = self._lowered(state, remedy)
            if lower is not None and over(lower.plan) <= over(state.plan) - WORTH_BYTES:
                state = lower
        return state

    def _lowered(self, state: State, remedy: Remedy) -> State | None:
        """A knob at the lowest value that is still the same kind of run."""
        path = KNOBS.get(remedy.name)
        now = state.plan.spec.get(path) if path else None
        if path is None or not isinstance(now, int):
            return None
        value = lowest(now)
        turned = replace(remedy, find=lambda subject, goal: Change(values={path: value}, how=f"{path}={value}"))
        return self.apply(state, turned) if value < now else None


def _refused(plan: Plan) -> set[str]:
    """What the framework would refuse to build."""
    found = find_adapter(plan.spec).refusals(plan.spec)
    return {refusal.reason for refusal in found if refusal.severity == "error"}


def _helps(before: State, after: State) -> bool:
    """Whether some device is smaller at its peak."""
    highs = {top.device: top.high_bytes for top in before.plan.tops}
    return any(after_top.high_bytes < highs.get(after_top.device, inf) for after_top in after.plan.tops)


def _slow(state: State) -> float:
    return inf if state.slowdown is None else state.slowdown


def _slowest_first(state: State) -> list[Remedy]:
    remedies = [step.remedy for step in reversed(state.steps) if step.remedy.kind != "learning"]
    return sorted(remedies, key=lambda remedy: -(inf if remedy.slowdown is None else remedy.slowdown))


def _share(state: State, kind: str) -> float:
    """How much of their values the counts keep that steps of a class turn, all together; 1 when none is turned."""
    return prod(_kept(step) for step in state.steps if step.remedy.kind == kind)


def _kept(step: Step) -> float:
    pairs = [(step.old.get(path), value) for path, value in step.change.values.items()]
    counts = [value / old for old, value in pairs if isinstance(old, int) and isinstance(value, int) and old > 0]
    # A switch that changes learning has no share, so that any knob is a smaller change.
    return min(counts, default=0.0 if step.remedy.kind == "learning" else 1.0)


def _least_change(state: State) -> tuple[bool, float]:
    """A knob that keeps most of its value first; those that change what the policy sees last."""
    step = state.steps[-1]
    return any(path in _LAST for path in step.change.values), -_kept(step)
