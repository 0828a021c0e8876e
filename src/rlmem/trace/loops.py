"""Candidates for a script with a loop of its own: edits, each judged by a dry run of the edited copy."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from rlmem.agent.protocol import Facts
from rlmem.capacity import over
from rlmem.core.edits import Edit
from rlmem.core.ledger import Peak
from rlmem.core.plan import Plan
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.errors import AnalysisError, UsageError
from rlmem.frameworks.base import Swap
from rlmem.lint.reading import Text, Unreadable, read_file
from rlmem.remedies import REMEDIES
from rlmem.remedies.base import Change, Constraints, Fit, Remedy, Step, Steps
from rlmem.remedies.finders import LEAST_SHARE
from rlmem.remedies.script import edit_loop_buffer, loop_knob
from rlmem.rules.knobs import rounded_down
from rlmem.scripts import Script
from rlmem.scripts.counts import Count, with_argument
from rlmem.trace.drafts import Draft, tried
from rlmem.trace.fitted import START_SHARE, Fitted, Job, fitted_by_edits, lacking
from rlmem.trace.loop_knobs import LOOP_KNOBS, Knob, knobs_of
from rlmem.trace.loop_rows import HOW, ROWS_ONCE, kept_twice
from rlmem.trace.plan import plan_dry_run
from rlmem.units import format_size

#: Dry runs that may be spent on finding the largest value of a loop's count.
TRIES = 5
#: A value this near to the limit is near enough, and a guess is taken this much under the line: two dry runs of one script differ
#: by a part of that.
NEAR_SHARE, UNDER = 0.05, 0.97
#: Steps before the first update in copies that are run to see one.
EARLY_STEPS = 1000
#: The buffer for a loop that makes SB3's.
COMPACT = Swap(store="CompactReplayBuffer", change="in place of ReplayBuffer(…)")
_BY_NAME = {remedy.name: remedy for remedy in REMEDIES}


class Loop:
    """Candidates for a script with a loop of its own; each is an edit, judged by a dry run of the edited copy.

    ``start`` is ``None`` where the script cannot even start here: its arrays are refused before they hold anything.
    """

    def __init__(
        self, job: Job, constraints: Constraints, start: Subject | None, text: Text, script: Script, facts: Facts
    ) -> None:
        self.job, self.constraints, self.text, self.script = job, constraints, text, script
        self.path = Path(job.target.text)
        self.start = start
        self.early = self._early()
        #: The plan of a copy that grows for as long as it runs, if one did.
        self.leaking: Plan | None = None
        self.knobs = tuple(knobs_of(script, job.target, facts, skipped=self._given()))
        self.twice = kept_twice(script, facts)

    def _early(self) -> tuple[Edit, ...]:
        """An earlier first update, in the copies that are run only: an update that is not seen has no size."""
        knob = loop_knob(self.script, "learning_starts")
        seen = self.start is not None and not self.start.plan.ledger.only(component="unseen.update").entries
        if knob is None or seen or knob.value <= EARLY_STEPS or knob.option in self._given():
            return ()
        return (knob.edit(self.script, EARLY_STEPS),)

    def fitted(self) -> Fitted:
        """Already, by keeping observations once, by a count on top of that, by a count alone; else the closest."""
        if self.start is not None and self.early:
            self.start = self._traced(Draft(), "dry run with an earlier update")
        if self.start is not None and over(self.start.plan) <= 0:
            return self._answer("already", (), Draft())
        swapped, draft = self._swapped()
        after = self._after(swapped)
        if after is not None and over(after.plan) <= 0:
            return self._answer("fits", swapped, draft)
        turned = self._turned(swapped, draft)
        if turned is not None:
            return self._answer("fits", *turned)
        if after is None:
            raise AnalysisError(f"{self.job.target.text}: it cannot start here, and no setting was found that lets it")
        return self._answer("expected" if over(after.plan, expected=True) <= 0 else "no", swapped, draft)

    def _after(self, steps: Steps) -> Subject | None:
        """The run with some steps; ``None`` where it cannot start."""
        return steps[-1].after if steps else self.start

    def _answer(self, status: str, steps: Steps, draft: Draft) -> Fitted:
        start = self.start or steps[0].before
        fit = Fit(start=start, steps=steps, status=status)
        leaking = fit.end.plan if fit.end.plan.leaks else self.leaking if status == "no" else None
        if leaking is not None:  # no count makes a leak fit
            grown = replace(fit.end, plan=leaking)
            return fitted_by_edits(Fit(start=grown, status="grows"), self.job.target, Draft(), ())
        by_hand = () if status == "already" else (*self._lacking(steps), *self._by_hand(steps, draft))
        return fitted_by_edits(fit, self.job.target, draft, by_hand)

    def _lacking(self, steps: Steps) -> tuple[str, ...]:
        names = {step.remedy.name for step in steps}
        if ROWS_ONCE.name in names:
            return lacking(self.job.target, "rlmem")
        return lacking(self.job.target, "rlmem", "numba") if "compact-store" in names else ()

    def _by_hand(self, steps: Steps, draft: Draft) -> tuple[str, ...]:
        """What no edit says: another buffer, values of the command line, numbers that stand in several places."""
        learning = any(step.remedy.kind == "learning" for step in steps)
        lines = [self.twice.by_hand] if self.twice and self.twice.reason else []
        if self.twice and not self.twice.reason and self.twice.frames > 1 and (learning or not steps):
            lines.append(self.twice.frames_by_hand)
        if draft.args is not None:
            lines.append(f"on the command line: {shlex.join(['python', self.job.target.text, *draft.args])}")
        if draft.edits or draft.args is not None:
            return tuple(lines)
        knobs = (loop_knob(self.script, field) for field in LOOP_KNOBS)
        given = [knob.name for knob in knobs if knob is not None and knob.option in self._given()]
        lines += [f"{name} is given on the command line: try a smaller one there" for name in given]
        lines += [text for knob in self.knobs if (text := self._inline(knob))]
        return tuple(lines)

    def _inline(self, knob: Knob) -> str | None:
        """A number that stands where an array is allocated, and in other places that only its writer knows."""
        if not knob.count.inline or self.start is None or knob.nbytes <= over(self.start.plan):
            return None
        value = rounded_down(round(knob.count.value * (1 - over(self.start.plan) / knob.nbytes) * UNDER))
        return (
            f"{knob.count.text} in {knob.count.place} decides {format_size(knob.nbytes)}: about {value:,} would fit; "
            "write it everywhere the same number is meant"
        )

    def _swapped(self) -> tuple[Steps, Draft]:
        """Each observation once, where it helps: rlmem's buffer in place of SB3's, or rows in place of two arrays."""
        edits = edit_loop_buffer(self.script, COMPACT.store, COMPACT.module)
        if edits:
            return self._once(_BY_NAME["compact-store"], COMPACT.sentence, self.path, edits)
        if self.twice is None or not self.twice.edits:
            return (), Draft()
        return self._once(ROWS_ONCE, HOW, Path(self.twice.script.path), self.twice.edits)

    def _once(self, remedy: Remedy, how: str, path: Path, edits: tuple[Edit, ...]) -> tuple[Steps, Draft]:
        change = Change(values={"storage": "compact"}, how=how)
        if not self._allows(remedy, change):
            return (), Draft()
        try:
            text = self.text if path.resolve() == self.path.resolve() else read_file(path)
            draft = Draft().and_edits(path, text, edits)
            found = self._traced(draft, f"dry run with {remedy.name}")
        except (AnalysisError, Unreadable) as error:  # no rlmem in that interpreter, or a buffer used in another way
            return (), self._unchanged(f"the edited copy did not run ({error})")
        if self.start is not None and over(found.plan) >= over(self.start.plan):
            return (), self._unchanged("the edited copy needs as much: its rows do not follow one another")
        before = self.start or found
        after = replace(before, plan=found.plan)
        step = Step(remedy=remedy, change=change, old={"storage": "plain"}, before=before, after=after)
        return (step,), draft

    def _unchanged(self, reason: str) -> Draft:
        self.twice = replace(self.twice, reason=reason) if self.twice else None
        return Draft()

    def _turned(self, steps: Steps, draft: Draft) -> tuple[Steps, Draft] | None:
        """The largest value of a count under which it fits, as one step more."""
        now = self._after(steps)
        for knob in self.knobs:
            remedy = _BY_NAME[knob.field.replace("_", "-")]
            wanted = Change(values={knob.field: 1}, how="")
            needed = over(now.plan) if now is not None else 0
            least = over(now.plan, expected=True) if now is not None else 0
            if knob.count.inline or not self._allows(remedy, wanted) or (knob.nbytes and knob.nbytes <= least):
                continue
            value = knob.count.value
            line = Line(partial(self._at, knob, draft), value)
            if now is not None:
                line.seen[value] = now.plan
                if knob.nbytes > needed and not draft.edits:
                    line.first = rounded_down(round(value * (1 - needed / knob.nbytes) * UNDER))
            largest = line.largest()
            if largest is not None:
                plan = line.seen[largest]
                before = now or self._extended(plan.spec, line.extended(value))
                how = f"{knob.count.name}: {knob.count.text} becomes {knob.count.written(largest)} ({knob.count.place})"
                change = Change(values={knob.field: largest}, how=how)
                after = replace(before, plan=plan)
                step = Step(remedy=remedy, change=change, old={knob.field: value}, before=before, after=after)
                return (*steps, step), self._with(knob.count, draft, largest)
        return None

    def _with(self, count: Count, draft: Draft, value: int) -> Draft:
        """A count turned: in the file where it is written, or on the command line."""
        if count.path is None:
            return replace(draft, args=with_argument(self.job.target.args, count, value))
        text = self.text if count.path == self.path.resolve() else read_file(count.path)
        return draft.and_edits(count.path, text, (count.edit(value),))

    def _at(self, knob: Knob, draft: Draft, value: int) -> Plan | None:
        """The plan with another count; ``None`` where it cannot start with it either."""
        try:
            return self._traced(self._with(knob.count, draft, value), f"dry run with {knob.count.name} {value:,}").plan
        except (AnalysisError, UsageError):
            return None

    def _given(self) -> set[str]:
        """Options given on the command line: a default that is edited would change nothing."""
        options = (item.split("=")[0] for item in self.job.target.args if item.startswith("-"))
        return {option.lstrip("-").replace("-", "_") for option in options}

    def _allows(self, remedy: Remedy, change: Change) -> bool:
        return (
            remedy.kind in self.constraints.kinds
            and not self.constraints.keep & set(change.values)
            and self._quick(remedy)
        )

    def _quick(self, remedy: Remedy) -> bool:
        most = self.constraints.max_slowdown
        return most is None or (remedy.slowdown is not None and remedy.slowdown <= most)

    def _traced(self, draft: Draft, what: str) -> Subject:
        with tried(draft.and_edits(self.path, self.text, self.early), self.job.target) as target:
            run = self.job.run(target, what)
        found = plan_dry_run(replace(run, target=self.job.target), self.job.budget, self.job.form)
        self.leaking = found.plan if found.plan.leaks else self.leaking
        if not self.early:
            return found
        note = f"in the copies that were run, learning starts after {EARLY_STEPS:,} steps, so that an update is seen"
        return replace(found, plan=replace(found.plan, notes=(note, *found.plan.notes)))

    def _extended(self, spec: RunSpec, plan: Plan) -> Subject:
        """The run at a size that cannot be started, by a plan that was extended to it."""
        return Subject(asked=spec, plan=plan, source=self.job.form, is_changeable=False)


class Line:
    """Memory grows along a line in a count: two plans give it, one more makes sure, a few more where it bends."""

    def __init__(self, at: Callable[[int], Plan | None], now: int) -> None:
        self.at, self.now, self.seen = at, now, dict[int, Plan]()
        #: Where to begin, when the bytes behind the count are known.
        self.first: int | None = None

    def largest(self) -> int | None:
        """The largest value that was seen to fit, with its upper bound."""
        value = self.first or self.now // (2 if self.seen else START_SHARE)
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
            if value in self.seen and over(self.seen[value]) > 0:  # one plan far off the line: half way to what fits
                most = max((seen for seen, plan in self.seen.items() if over(plan) <= 0), default=0)
                value = rounded_down((most + value) // 2)
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
