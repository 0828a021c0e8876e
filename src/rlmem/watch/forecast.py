"""What it will come to: when stores are full, and when the limit is reached."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from rlmem.moments import Forecast, Moment
from rlmem.watch.growth import Trend, pairwise_slopes
from rlmem.watch.owners import Owner

#: An array without a fill of its own counts as filling when this share of it became resident while it was watched.
WRITTEN_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """An owner on its way to its end: what it will still take, and how fast (None: not seen long enough)."""

    name: str
    left_bytes: int
    per_s: float | None = None
    full_in_s: float | None = None
    left_steps: float | None = None

    def by(self, seconds: float) -> float:
        """What it has taken by then."""
        return float(self.left_bytes) if self.per_s is None else min(float(self.left_bytes), self.per_s * seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Steps a second, and when the run ends by its own count."""

    step: int
    per_s: float
    end_in_s: float | None = None


def read_pace(moments: Iterable[Moment]) -> Pace | None:
    """How fast the training goes, from the steps seen; None when they do not advance."""
    seen = [(moment.at_s, moment.progress) for moment in moments if moment.progress is not None]
    if len(seen) < 2:
        return None
    recent = seen[-32:]
    (begin, first), (end, last) = recent[0], recent[-1]
    if end <= begin or last.step <= first.step:
        return None
    per_s = (last.step - first.step) / (end - begin)
    left = None if last.total is None else max(0, last.total - last.step) / per_s
    return Pace(step=last.step, per_s=per_s, end_in_s=left)


def read_fillings(owners: Iterable[Owner], moments: Iterable[Moment] = ()) -> tuple[Filling, ...]:
    """Owners in RAM that have an end and have not reached it: by their own fill, or seen to become resident."""
    steps = {moment.at_s: moment.progress.step for moment in moments if moment.progress is not None}
    found = (_filling(owner, steps) for owner in owners if owner.is_bounded and owner.device == "ram")
    return tuple(filling for filling in found if filling is not None)


def _filling(owner: Owner, steps: Mapping[float, int]) -> Filling | None:
    now = owner.now
    if now.filled is not None and now.capacity is not None:
        rows = now.capacity - now.filled
        left = _left_by_rows(owner)
        if rows <= 0 or left <= 0:
            return None
        per_row = left / rows
        speed = _rate(owner, [float(point.filled or 0) for point in owner.points])
        if speed is None or speed <= 0:
            return Filling(name=owner.name, left_bytes=left)
        return Filling(
            name=owner.name,
            left_bytes=left,
            per_s=per_row * speed,
            full_in_s=rows / speed,
            left_steps=_steps_for(rows, owner, steps),
        )
    left = now.nbytes - now.resident_bytes
    speed = _rate(owner, [float(point.resident_bytes) for point in owner.points])
    grown = now.resident_bytes - owner.points[0].resident_bytes
    if left <= 0 or speed is None or speed <= 0 or grown < WRITTEN_SHARE * now.nbytes:
        return None
    return Filling(name=owner.name, left_bytes=left, per_s=speed, full_in_s=left / speed)


def _steps_for(rows: int, owner: Owner, steps: Mapping[float, int]) -> float | None:
    """Steps in which so many rows are written, from looks that show both: it does not matter how fast the run goes."""
    seen = [(steps[point.at_s], point.filled or 0) for point in owner.points if point.at_s in steps]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0] or seen[-1][1] <= seen[0][1]:
        return None
    return rows * (seen[-1][0] - seen[0][0]) / (seen[-1][1] - seen[0][1])


def _left_by_rows(owner: Owner) -> int:
    """Allocated whole: what is not resident yet. Allocated row by row: as much again for each row still to come."""
    first, now = owner.points[0], owner.now
    grows = now.nbytes > first.nbytes and (now.filled or 0) > (first.filled or 0)
    if now.filled and now.capacity and (grows or owner.kind == "container"):
        return int(now.resident_bytes / now.filled * (now.capacity - now.filled))
    return now.nbytes - now.resident_bytes


def _rate(owner: Owner, values: Sequence[float]) -> float | None:
    times = [point.at_s for point in owner.points]
    return median(pairwise_slopes((times, values))) if len(times) > 1 else None


def foresee(
    moment: Moment, fillings: Sequence[Filling], *, leak: Trend | None = None, pace: Pace | None = None
) -> Forecast:
    """What the tree comes to from this moment on; a leak has no end but the run's own."""
    limit, now = moment.limit_bytes, moment.tree_bytes
    end = pace.end_in_s if pace else None
    full_in = max((filling.full_in_s for filling in fillings if filling.full_in_s is not None), default=None)
    if end is not None and full_in is not None and full_in > end:  # the run ends first
        full_in = None
    left_steps = next((each.left_steps for each in fillings if each.full_in_s == full_in), None)
    step = round(pace.step + left_steps) if pace and full_in is not None and left_steps is not None else None
    horizon = end if end is not None else None if leak else math.inf
    final = None if horizon is None else round(_reached(now, fillings, leak.per_s if leak else 0.0, horizon))
    out = _time_to(limit, now, fillings, leak.per_s if leak else 0.0) if limit else None
    if out is not None and end is not None and out > end:
        out = None
    early = late = None
    if out is not None and leak and limit:
        early = _time_to(limit, now, fillings, leak.high)
        late = _time_to(limit, now, fillings, leak.low)
    fits = None
    if limit is not None and (final is not None or out is not None):
        fits = out is None and final is not None and final <= limit
    return Forecast(
        final_bytes=final,
        fits=fits,
        full_in_s=full_in,
        full_at_step=step,
        oom_in_s=out,
        oom_low_s=early,
        oom_high_s=late,
    )


def _reached(now: int, fillings: Sequence[Filling], leak: float, seconds: float) -> float:
    return now + sum(filling.by(seconds) for filling in fillings) + (leak * seconds if leak else 0.0)


def _time_to(limit: int, now: int, fillings: Sequence[Filling], leak: float) -> float | None:
    """When the limit is reached; None when it never is, or when the pace is not known."""
    if now >= limit:
        return 0.0
    known = [filling for filling in fillings if filling.per_s and filling.full_in_s is not None]
    at, size = 0.0, float(now)
    for end in sorted({filling.full_in_s or 0.0 for filling in known}):
        speed = leak + sum(filling.per_s or 0.0 for filling in known if (filling.full_in_s or 0.0) >= end)
        if speed > 0 and size + speed * (end - at) >= limit:
            return at + (limit - size) / speed
        size, at = size + speed * (end - at), end
    return at + (limit - size) / leak if leak > 0 else None
