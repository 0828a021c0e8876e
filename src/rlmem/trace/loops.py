"""Candidates for a script with a loop of its own: edits, each judged by a dry run of the edited copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from rlmem.edits import Edit, apply
from rlmem.errors import AnalysisError
from rlmem.frameworks.base import Swap
from rlmem.ledger import Peak
from rlmem.lint.reading import Text
from rlmem.plan import Plan
from rlmem.remedies import REMEDIES
from rlmem.remedies.base import Change, Fit, Remedy, State, Step, Wishes, over
from rlmem.remedies.finders import LEAST_SHARE
from rlmem.remedies.script import LoopKnob, edit_loop_buffer, loop_knob
from rlmem.rules.knobs import rounded_down
from rlmem.scripts import Script
from rlmem.trace.fitted import START_SHARE, Fitted, Job, as_diff, edited_copy
from rlmem.trace.plan import Traced, traced

#: Dry runs that may be spent on finding the largest value of a loop's count.
TRIES = 5
#: A value this near to the limit is near enough, and a guess is taken this much under the line.
NEAR_SHARE, UNDER = 0.03, 0.985
#: Steps before the first update in copies that are run to see one.
EARLY_STEPS = 1000
#: The buffer for a loop that makes SB3's.
COMPACT = Swap(store="CompactReplayBuffer", change="in place of ReplayBuffer(…)")
_BY_NAME = {remedy.name: remedy for remedy in REMEDIES}
#: Counts of a loop that are turned, in this order, where milder steps are not enough.
_LOOP_KNOBS = ("buffer_size", "n_steps", "n_envs")


class Loop:
    """Candidates for a script with a loop of its own; each is an edit, judged by a dry run of the edited copy.

    ``start`` is ``None`` where the script cannot even start here: its arrays are refused before they hold anything.
    """

    def __init__(self, job: Job, wishes: Wishes, start: Traced | None, text: Text, script: Script) -> None:
        self.job, self.wishes, self.text, self.script = job, wishes, text, script
        self.start = State(asked=start.asked, plan=start.plan) if start else None
        self.early = self._early()

    def _early(self) -> tuple[Edit, ...]:
        """An earlier first update, in the copies that are run only: an update that is not seen has no size."""
        knob = loop_knob(self.script, "learning_starts")
        seen = self.start is not None and not self.start.plan.ledger.only(component="unseen.update").entries
        if knob is None or seen or knob.value <= EARLY_STEPS or knob.option in self._given():
            return ()
        return (knob.edit(self.script, EARLY_STEPS),)

    def fitted(self) -> Fitted:
        """Already, by its buffer, by a count on top of that, by a count alone; else the closest."""
        if self.start is not None and self.early:
            found = self._traced((), "dry run with an earlier update")
            self.start = State(asked=found.asked, plan=found.plan)
        if self.start is not None and over(self.start.plan) <= 0:
            return self._answer("already", self.start, ())
        swapped, edits = self._swapped()
        if swapped is not None and over(swapped.plan) <= 0:
            return self._answer("fits", swapped, edits)
        turned = self._turned(swapped, edits)
        if turned is not None:
            return self._answer("fits", *turned)
        if swapped is None:
            raise AnalysisError(f"{self.job.target.text}: it cannot start here, and no setting was found that lets it")
        return self._answer("expected" if over(swapped.plan, expected=True) <= 0 else "no", swapped, edits)

    def _answer(self, status: str, end: State, edits: tuple[Edit, ...]) -> Fitted:
        start = self.start or State(asked=end.asked, plan=end.steps[0].before)
        fit = Fit(start=start, end=end, status=status)
        return as_diff(fit, self.job.target, self.text, edits, self._on_the_command_line())

    def _on_the_command_line(self) -> tuple[str, ...]:
        """Counts that were not turned because the command line decides them."""
        knobs = (loop_knob(self.script, field) for field in _LOOP_KNOBS)
        given = [knob.name for knob in knobs if knob is not None and knob.option in self._given()]
        return tuple(f"{name} is given on the command line: try a smaller one there" for name in given)

    def _swapped(self) -> tuple[State | None, tuple[Edit, ...]]:
        """rlmem's buffer in place of SB3's, where the loop makes one and it helps."""
        edits = edit_loop_buffer(self.script, COMPACT.store, COMPACT.module)
        remedy = _BY_NAME["compact-store"]
        change = Change(values={"storage": "compact"}, how=COMPACT.sentence)
        if not edits or not self._allows(remedy, change):
            return self.start, ()
        try:
            found = self._traced(edits, f"dry run with {COMPACT.store}")
        except AnalysisError:  # an interpreter without rlmem's buffers, or a buffer used in another way
            return self.start, ()
        if self.start is not None and over(found.plan) >= over(self.start.plan):
            return self.start, ()
        before = self.start or State(asked=found.asked, plan=found.plan)
        return self._stepped(before, remedy, change, {"storage": "plain"}, found.plan), edits

    def _turned(self, state: State | None, edits: tuple[Edit, ...]) -> tuple[State, tuple[Edit, ...]] | None:
        """The largest value of a count under which it fits."""
        for field in _LOOP_KNOBS:
            knob = loop_knob(self.script, field)
            remedy = _BY_NAME[field.replace("_", "-")]
            wanted = Change(values={field: 1}, how="")
            if knob is None or knob.option in self._given() or not self._allows(remedy, wanted):
                continue
            tried = Line(partial(self._at, knob, edits), knob.value)
            if state is not None:
                tried.seen[knob.value] = state.plan
            value = tried.largest()
            if value is not None:
                plan = tried.seen[value]
                before = state or State(asked=plan.spec, plan=tried.extended(knob.value))
                change = Change(values={field: value}, how=f"{knob.name} = {value}")
                after = self._stepped(before, remedy, change, {field: knob.value}, plan)
                return after, (*edits, knob.edit(self.script, value))
        return None

    def _at(self, knob: LoopKnob, edits: tuple[Edit, ...], value: int) -> Plan | None:
        """The plan with another count; ``None`` where it cannot start with it either."""
        try:
            edit = knob.edit(self.script, value)
            return self._traced((*edits, edit), f"dry run with {knob.name} {value:,}").plan
        except AnalysisError:
            return None

    def _given(self) -> set[str]:
        """Options given on the command line: a default that is edited would change nothing."""
        options = (item.split("=")[0] for item in self.job.target.args if item.startswith("-"))
        return {option.lstrip("-").replace("-", "_") for option in options}

    def _allows(self, remedy: Remedy, change: Change) -> bool:
        return remedy.kind in self.wishes.kinds and not self.wishes.keep & set(change.values) and self._quick(remedy)

    def _quick(self, remedy: Remedy) -> bool:
        most = self.wishes.max_slowdown
        return most is None or (remedy.slowdown is not None and remedy.slowdown <= most)

    def _traced(self, edits: tuple[Edit, ...], what: str) -> Traced:
        with edited_copy(self.job.target, self.text, apply(self.text.text, (*edits, *self.early))) as target:
            run = self.job.run(target, what)
        found = traced(self.job.planner, replace(run, target=self.job.target))
        if not self.early:
            return found
        note = f"in the copies that were run, learning starts after {EARLY_STEPS:,} steps, so that an update is seen"
        return replace(found, plan=replace(found.plan, notes=(note, *found.plan.notes)))

    def _stepped(self, state: State, remedy: Remedy, change: Change, old: Mapping[str, Any], plan: Plan) -> State:
        step = Step(remedy=remedy, change=change, old=old, before=state.plan, after=plan)
        return State(asked=state.asked, plan=plan, steps=(*state.steps, step))


class Line:
    """Memory grows along a line in a count: two plans give it, one more makes sure, a few more where it bends."""

    def __init__(self, at: Callable[[int], Plan | None], now: int) -> None:
        self.at, self.now, self.seen = at, now, dict[int, Plan]()

    def largest(self) -> int | None:
        """The largest value that was seen to fit, with its upper bound."""
        value = self.now // (2 if self.seen else START_SHARE)
        for _ in range(TRIES):
            if value < max(1, self.now * LEAST_SHARE) or value in self.seen:
                break
            plan = self.at(value)
            if plan is None:
                value //= 4
                continue
            self.seen[value] = plan
            if 0 <= -over(plan) < NEAR_SHARE * _limit(plan):
                break
            value = self._next(value)
        fitting = [value for value, plan in self.seen.items() if over(plan) <= 0]
        return max(fitting, default=None)

    def _next(self, value: int) -> int:
        """Where the line through the two values nearest to the limit meets it, and a little under that."""
        if len(self.seen) < 2:
            return value // 2
        (one, above), (other, below) = self._two()
        slope = (above - below) / (one - other)
        if slope <= 0:
            return value // 2
        return min(rounded_down(int((other - below / slope) * UNDER)), self.now - 1)

    def _two(self) -> list[tuple[int, int]]:
        points = sorted(((value, over(plan)) for value, plan in self.seen.items()), key=lambda point: abs(point[1]))
        return sorted(points[:2], reverse=True)

    def extended(self, value: int) -> Plan:
        """The plan at a value that cannot be started, along the line."""
        (one, _), (other, _) = self._two()
        base, smaller = self.seen[one].top("ram"), self.seen[other].top("ram")
        assert base is not None
        assert smaller is not None
        steps = (value - one) / (one - other)
        low, expected, high = (
            now + round((now - before) * steps) for now, before in zip(_sizes(base), _sizes(smaller), strict=True)
        )
        longer = replace(base, low_bytes=low, expected_bytes=expected, high_bytes=max(high, expected))
        peaks = tuple(longer if peak is base else peak for peak in self.seen[one].peaks)
        note = f"as it is it cannot start here: its size is extended along the line through {other:,} and {one:,}"
        return replace(self.seen[one], peaks=peaks, notes=(note, *self.seen[one].notes))


def _sizes(peak: Peak) -> tuple[int, int, int]:
    return peak.low_bytes, peak.expected_bytes, peak.high_bytes


def _limit(plan: Plan) -> int:
    return min((peak.limit_bytes for peak in plan.peaks if peak.limit_bytes is not None), default=0)
