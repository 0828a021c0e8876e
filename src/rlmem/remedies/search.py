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
from rlmem.remedies.base import Change, Constraints, Fit, Goal, Remedy, SingleStep, Step, Steps, slowdown_of
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

    ``writable`` says whether steps can all be written down for the user. Lossless steps that can are preferred to those
    that he has to make by hand.
    """

    def __init__(
        self,
        subject: Subject,
        constraints: Constraints | None = None,
        remedies: Sequence[Remedy] = REMEDIES,
        writable: Callable[[Steps], bool] | None = None,
    ) -> None:
        self.constraints = constraints or Constraints()
        self.remedies = remedies
        self.writable = writable
        self.start = subject

    def fit(self) -> Fit:
        """The smallest change under which the run fits, or what comes nearest."""
        start = self.start
        if over(start.plan) <= 0:
            return Fit(start=start, status="already")
        alone = self.single_steps()
        mild = self._any(self._any((), "lossless", expected=False), "speed", expected=False)
        steps = self._enough(expected=False)
        if steps is not None:
            return Fit(start=start, steps=steps, status="fits", alone=alone, mild=mild)
        if over(start.plan, expected=True) <= 0:  # as expected it fits already
            return Fit(start=start, steps=self._closest(mild), status="expected", alone=alone, mild=mild)
        steps = self._enough(expected=True)
        if steps is not None:
            return Fit(start=start, steps=steps, status="expected", alone=alone, mild=mild)
        closest = self._closest(mild)
        status = "expected" if over(self.after(closest).plan, expected=True) <= 0 else "no"
        return Fit(start=start, steps=closest, status=status, alone=alone, mild=mild)

    # -- one step --------------------------------------------------------------------------------------------------

    def after(self, steps: Steps) -> Subject:
        """The run with some steps."""
        return steps[-1].after if steps else self.start

    def apply(self, steps: Steps, remedy: Remedy, *, expected: bool = False, device: str | None = None) -> Steps | None:
        """Steps with one remedy more; ``None`` where it does not apply, saves nothing, is not wanted, or is refused."""
        if remedy.kind not in self.constraints.kinds:
            return None
        before = self.after(steps)
        change = remedy.find(before, Goal(expected=expected, device=device))
        if change is None:
            return None
        try:
            after = before.having(change.values)
        except SpecError:
            return None
        if _refused(after.plan) - _refused(before.plan):
            return None
        old = {path: before.spec.get(path) for path in change.values}
        step = Step(remedy=remedy, change=change, old=old, before=before, after=after)
        if max(step.saves.values(), default=0) <= 0:
            return None  # numba, say, takes more than a small store gives back
        longer = (*steps, step)
        return longer if self.constraints.allow(longer) else None

    def _all(self, steps: Steps, remedies: Iterable[Remedy], *, expected: bool) -> Steps | None:
        """Every one of some remedies, in order; ``None`` when one of them does not apply."""
        for remedy in remedies:
            longer = self.apply(steps, remedy, expected=expected)
            if longer is None:
                return None
            steps = longer
        return steps

    def _any(self, steps: Steps, kind: str, *, expected: bool, written: bool = False) -> Steps:
        """As many remedies of a class as apply and make something smaller; with ``written`` those that can be written down."""
        for remedy in self._of(kind):
            longer = self.apply(steps, remedy, expected=expected)
            if longer is None or (written and self.writable is not None and not self.writable(longer)):
                continue
            if _helps(longer[-1]):
                steps = longer
        return steps

    def _of(self, kind: str) -> list[Remedy]:
        return [remedy for remedy in self.remedies if remedy.kind == kind]

    def single_steps(self) -> tuple[SingleStep, ...]:
        """Every remedy that applies, by itself."""
        ways = (self.apply((), remedy) for remedy in self.remedies)
        return tuple(SingleStep(step=way[0], fits=self._over(way) <= 0) for way in ways if way is not None)

    def _over(self, steps: Steps, *, expected: bool = False, device: str | None = None) -> int:
        """Bytes above the limit with some steps."""
        return over(self.after(steps).plan, expected=expected, device=device)

    # -- the classes -----------------------------------------------------------------------------------------------

    def _enough(self, *, expected: bool) -> Steps | None:
        """The mildest steps under which the run fits."""
        most: Steps = ()
        for written in (True, False) if self.writable else (False,):
            most = self._any((), "lossless", expected=expected, written=written)
            fewest = self._smallest((), most, expected=expected)
            if fewest is not None:
                return fewest
        slower = self._any(most, "speed", expected=expected)
        fewest = self._smallest(most, slower, expected=expected)
        if fewest is not None:
            return self._pruned(fewest, expected=expected)
        return self._learning(slower, expected=expected)

    def _smallest(self, first: Steps, most: Steps, *, expected: bool) -> Steps | None:
        """The fewest of the steps after the first ones that are enough, and of those the least slow."""
        if self._over(most, expected=expected) > 0:
            return None
        remedies = [step.remedy for step in most[len(first) :]]
        for size in range(1, len(remedies) + 1):
            ways = (self._all(first, chosen, expected=expected) for chosen in combinations(remedies, size))
            fitting = [way for way in ways if way is not None and self._over(way, expected=expected) <= 0]
            if fitting:
                return min(fitting, key=lambda way: (_slow(way), self._over(way)))
        return most

    def _pruned(self, steps: Steps, *, expected: bool) -> Steps:
        """Without the steps that are not needed, or save a batch from being cut up less than twice as fine."""
        for remedy in _slowest_first(steps):
            others = [step.remedy for step in steps if step.remedy is not remedy]
            fewer = self._all((), others, expected=expected)
            if fewer is None or self._over(fewer, expected=expected) > 0:
                continue
            if _share(fewer, "speed") >= _share(steps, "speed") * FINER_SHARE:
                steps = fewer
        return steps

    def _learning(self, base: Steps, *, expected: bool) -> Steps | None:
        """Milder steps as far as they go, and as little change of learning as possible on top."""
        best = self._turned(base, expected=expected)
        if best is None:
            return None
        for remedy in _slowest_first(base):
            milder = [step.remedy for step in best if step.remedy.kind != "learning" and step.remedy is not remedy]
            fewer = self._all((), milder, expected=expected)
            without = self._turned(fewer, expected=expected) if fewer is not None else None
            worth = WORTH_SHARE if remedy.kind == "speed" else 0
            if without is not None and _share(without, "learning") >= _share(best, "learning") - worth:
                best = without
        return best

    def _turned(self, base: Steps, *, expected: bool) -> Steps | None:
        """One change of learning that is enough; else one for each device that is over its limit."""
        if self._over(base, expected=expected) <= 0:
            return base
        ways = [self.apply(base, remedy, expected=expected) for remedy in self._of("learning")]
        fitting = [way for way in ways if way is not None and self._over(way, expected=expected) <= 0]
        if fitting:
            return min(fitting, key=_least_change)
        steps = base
        for device in [top.device for top in self.after(base).plan.tops]:
            if self._over(steps, expected=expected, device=device) <= 0:
                continue
            here = [self.apply(steps, remedy, expected=expected, device=device) for remedy in self._of("learning")]
            enough = [way for way in here if way is not None and self._over(way, expected=expected, device=device) <= 0]
            if not enough:
                return None
            steps = min(enough, key=_least_change)
        return steps if self._over(steps, expected=expected) <= 0 else None

    def _closest(self, mild: Steps) -> Steps:
        """As near as it gets: every step that makes the run smaller, and each knob as far down as it helps."""
        steps = self._any(mild, "learning", expected=False)
        for remedy in self._of("learning"):
            lower = self._lowered(steps, remedy)
            if lower is not None and self._over(lower) <= self._over(steps) - WORTH_BYTES:
                steps = lower
        return steps

    def _lowered(self, steps: Steps, remedy: Remedy) -> Steps | None:
        """A knob at the lowest value that is still the same kind of run."""
        path = KNOBS.get(remedy.name)
        now = self.after(steps).spec.get(path) if path else None
        if path is None or not isinstance(now, int):
            return None
        value = lowest(now)
        turned = replace(remedy, find=lambda subject, goal: Change(values={path: value}, how=f"{path}={value}"))
        return self.apply(steps, turned) if value < now else None


def _refused(plan: Plan) -> set[str]:
    """What the framework would refuse to build."""
    found = find_adapter(plan.spec).refusals(plan.spec)
    return {refusal.reason for refusal in found if refusal.severity == "error"}


def _helps(step: Step) -> bool:
    """Whether some device is smaller at its peak."""
    highs = {top.device: top.high_bytes for top in step.before.plan.tops}
    return any(top.high_bytes < highs.get(top.device, inf) for top in step.after.plan.tops)


def _slow(steps: Steps) -> float:
    slowdown = slowdown_of(steps)
    return inf if slowdown is None else slowdown


def _slowest_first(steps: Steps) -> list[Remedy]:
    remedies = [step.remedy for step in reversed(steps) if step.remedy.kind != "learning"]
    return sorted(remedies, key=lambda remedy: -(inf if remedy.slowdown is None else remedy.slowdown))


def _share(steps: Steps, kind: str) -> float:
    """How much of their values the counts keep that steps of a class turn, all together; 1 when none is turned."""
    return prod(_kept(step) for step in steps if step.remedy.kind == kind)


def _kept(step: Step) -> float:
    pairs = [(step.old.get(path), value) for path, value in step.change.values.items()]
    counts = [value / old for old, value in pairs if isinstance(old, int) and isinstance(value, int) and old > 0]
    # A switch that changes learning has no share, so that any knob is a smaller change.
    return min(counts, default=0.0 if step.remedy.kind == "learning" else 1.0)


def _least_change(steps: Steps) -> tuple[bool, float]:
    """A knob that keeps most of its value first; those that change what the policy sees last."""
    step = steps[-1]
    return any(path in _LAST for path in step.change.values), -_kept(step)
