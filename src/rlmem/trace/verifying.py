"""Measure a run before and after its steps, in fresh processes: whether they took effect, and how much they saved."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rlmem.core.points import Point, PointLimits
from rlmem.core.progress import ShowProgress
from rlmem.core.target import Target
from rlmem.errors import AnalysisError, UsageError
from rlmem.programs.points import REFUSED
from rlmem.programs.points import measure_point as measure_described
from rlmem.remedies.base import changes_of
from rlmem.trace.drafts import tried
from rlmem.trace.fitted import Fitted
from rlmem.trace.points import measure_alone
from rlmem.trace.target import RunnableTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """Two measurements; a run that cannot be measured has a reason instead, and running out of memory is a result."""

    before: Point | None
    after: Point | None
    cap_bytes: int | None
    notes: tuple[str, ...] = ()

    @property
    def saved_bytes(self) -> int | None:
        """What the steps really saved; ``None`` unless both ran to their end."""
        points = (self.before, self.after)
        peaks = [point.peak_bytes for point in points if point is not None and point.is_ok]
        if len(peaks) < len(points) or None in peaks:
            return None
        before, after = peaks
        return (before or 0) - (after or 0)

    @property
    def took_effect(self) -> bool:
        """Whether the run with its steps ran under the cap."""
        return self.after is not None and self.after.is_ok


def verify_described(target: Target, fitted: Fitted, limits: PointLimits, progress: ShowProgress) -> Verified:
    """A preset or a run file, by the programs that run described runs."""
    sets = tuple(f"{path}={_text(value)}" for path, value in changes_of(fitted.fit.steps).items())
    before, first = _measured(lambda: measure_described(target, {}, limits), "before", progress)
    changed = replace(target, sets=(*target.sets, *sets))
    after, second = _measured(lambda: measure_described(changed, {}, limits), "after", progress)
    return Verified(before=before, after=after, cap_bytes=limits.cap_bytes, notes=(*first, *second))


def _text(value: object) -> str:
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value)


def verify_run(
    target: Target, runnable: RunnableTarget, fitted: Fitted, limits: PointLimits, progress: ShowProgress
) -> Verified:
    """A script with its edits in a copy, an RL Zoo entry with its hyperparameters.

    Args:
        target: what was asked for.
        runnable: the same with its interpreter, which the edits are made for.
        fitted: the steps.
        limits: how far a measurement may go.
        progress: shows what is being done.
    """
    before, first = _measured(lambda: measure_alone(target, limits), "before", progress)
    changed = target if fitted.args is None else replace(target, args=fitted.args)
    if fitted.draft is not None and fitted.draft.edits:
        with tried(fitted.draft, runnable) as copy:
            edited = replace(changed, text=copy.text)
            after, second = _measured(lambda: measure_alone(edited, limits, copy.folder), "after", progress)
    elif fitted.args is not None:
        after, second = _measured(lambda: measure_alone(changed, limits), "after", progress)
    else:
        after, second = None, (f"after: {Path(target.text).name} cannot be edited, so that only 'before' was measured",)
    return Verified(before=before, after=after, cap_bytes=limits.cap_bytes, notes=(*first, *second))


def _measured(measure: Callable[[], Point], what: str, progress: ShowProgress) -> tuple[Point | None, tuple[str, ...]]:
    try:
        with progress(f"measuring {what}"):
            point = measure()
        refused = point.status == "failed" and any(word in point.note for word in REFUSED)
        return (replace(point, status="oom") if refused else point), ()
    except (AnalysisError, UsageError) as error:
        return None, (f"{what}: {error}",)
