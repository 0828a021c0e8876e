"""What it will come to: when stores are full, and when the limit is reached.

Owners are asked seldom, and what they were still to take was so at the last look. Everything is therefore reckoned from
that moment: what the stores have taken since comes out of what was left, and the time since out of the time there was.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rlmem.core.moments import Forecast, Moment
from rlmem.watch.growth import Trend, pairwise_slopes
from rlmem.watch.owners import Owner, Point, bounded_bytes

#: An array without a fill of its own counts as filling when this share of it became resident while it was watched.
WRITTEN_SHARE = 0.01
#: A look so long ago says less of the pace than what the total has gained since.
OLD_S = 30.0
#: The pace of stores is not thought slower than this share of what was seen: others may have shrunk meanwhile.
SLOWEST = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """An owner on its way to its end: what it will still take, and how fast (None: not seen long enough)."""

    name: str
    left_bytes: float
    low_bytes: float  # the range of that: rows of a store may differ in size
    high_bytes: float
    per_s: float | None = None
    low: float = 0.0  # the range of that
    high: float = 0.0
    full_in_s: float | None = None
    full_at_step: float | None = None

    def by(self, seconds: float) -> float:
        """What it has taken by then."""
        return self.left_bytes if self.per_s is None else min(self.left_bytes, self.per_s * seconds)

    def at(self, per_s: float) -> Filling:
        """The same at another pace."""
        return replace(self, per_s=per_s, full_in_s=self.left_bytes / per_s) if self.per_s and per_s > 0 else self

    def after(self, seconds: float, share: float) -> Filling:
        """The same some time later, in which it took a share of what its pace says."""
        if self.per_s is None:
            return self
        taken = share * self.by(seconds)
        pace = self.per_s * (max(share, SLOWEST) if seconds > OLD_S else 1.0)
        return replace(
            self,
            left_bytes=self.left_bytes - taken,
            low_bytes=max(0.0, self.low_bytes - taken),
            high_bytes=max(0.0, self.high_bytes - taken),
            per_s=pace,
            low=min(self.low, pace),
            high=max(self.high, pace),
            full_in_s=(self.left_bytes - taken) / pace,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Everything that fills, as it is now, and by how much all else may be less or more than it is now."""

    fillings: tuple[Filling, ...] = ()
    less_bytes: float = 0.0
    more_bytes: float = 0.0

    @property
    def left_bytes(self) -> float:
        """What those that are seen to fill will still take."""
        return sum(filling.left_bytes for filling in self.fillings if filling.per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Steps a second, and when the run ends by its own count."""

    per_s: float
    end_in_s: float | None = None


def read_pace(moments: Sequence[Moment]) -> Pace | None:
    """How fast the training goes, from the steps seen; None when they do not advance."""
    seen = [(moment.at_s, moment.progress) for moment in moments if moment.progress is not None]
    if len(seen) < 2:
        return None
    recent = seen[-32:]
    (begin, first), (end, last) = recent[0], recent[-1]
    if end <= begin or last.step <= first.step:
        return None
    per_s = (last.step - first.step) / (end - begin)
    if last.total is None:
        return Pace(per_s=per_s)
    left = max(0, last.total - last.step) / per_s
    return Pace(per_s=per_s, end_in_s=max(0.0, left - (moments[-1].at_s - end)))


def read_stores(owners: Sequence[Owner], asked: Sequence[Moment], moments: Sequence[Moment]) -> Stores:
    """What fills, moved on from the last look to the last moment."""
    found = read_fillings(owners, asked)
    if not asked or not moments:
        return Stores(fillings=found)
    look, now = asked[-1], moments[-1]
    age, gained = now.at_s - look.at_s, max(0.0, float(now.tree_bytes - look.tree_bytes))
    expected = sum(filling.by(age) for filling in found if filling.per_s)
    share = min(1.0, gained / expected) if expected > 0 else 0.0
    moved = tuple(filling.after(age, share) for filling in found)
    least = min(gained, sum(min(filling.low_bytes, filling.low * age) for filling in found))
    most = sum(min(filling.high_bytes, filling.high * age) for filling in found)
    taken = share * expected
    beside = now.tree_bytes - bounded_bytes(asked, owners, [look.at_s])[0]  # less what the stores took since
    lowest, highest = _beside(owners, asked, moments) or (beside - taken, beside - taken)
    return Stores(
        fillings=moved,
        less_bytes=max(0.0, most - taken, beside - taken - lowest),
        more_bytes=max(0.0, taken - least, highest - beside + taken),
    )


def _beside(owners: Sequence[Owner], asked: Sequence[Moment], moments: Sequence[Moment]) -> tuple[float, float] | None:
    """The least and the most of all that has no end, in the later half of the looks; None for too few moments."""
    begin, end = asked[len(asked) // 2].at_s, asked[-1].at_s
    part = [moment for moment in moments if begin <= moment.at_s <= end]
    if len(part) < 4:
        return None
    ended = bounded_bytes(asked, owners, [moment.at_s for moment in part])
    beside = [moment.tree_bytes - each for moment, each in zip(part, ended, strict=True)]
    half = len(beside) // 2
    lowest = max(_low(beside[:half]), _low(beside[half:]))  # what only rises does not come back to where it began
    return lowest, -_low([-each for each in beside])


def _low(values: Sequence[float]) -> float:
    """What all but one in twenty are above."""
    return sorted(values)[len(values) // 20]


def read_fillings(owners: Iterable[Owner], moments: Iterable[Moment] = ()) -> tuple[Filling, ...]:
    """Owners in RAM that have an end and have not reached it, at the last look: by their own fill, or their pages."""
    steps = {moment.at_s: moment.progress.step for moment in moments if moment.progress is not None}
    found = (_filling(owner, steps) for owner in owners if owner.is_bounded and owner.device == "ram")
    return tuple(filling for filling in found if filling is not None)


def _filling(owner: Owner, steps: Mapping[float, int]) -> Filling | None:
    now = owner.now
    if now.filled is not None and now.capacity is not None:
        rows = now.capacity - now.filled
        left, least, most = _left_by_rows(owner)
        if rows <= 0 or left <= 0:
            return None
        pace = _rate(owner, [float(point.filled or 0) for point in owner.points])
        if pace is None or pace[0] <= 0:
            return Filling(name=owner.name, left_bytes=left, low_bytes=least, high_bytes=most)
        speed, low, high = pace
        return Filling(
            name=owner.name,
            left_bytes=left,
            low_bytes=least,
            high_bytes=most,
            per_s=left / rows * speed,
            low=max(0.0, least / rows * low),
            high=most / rows * high,
            full_in_s=rows / speed,
            full_at_step=_full_at(rows, owner, steps),
        )
    left = float(now.nbytes - now.resident_bytes)
    pace = _rate(owner, [float(point.resident_bytes) for point in owner.points])
    grown = now.resident_bytes - owner.points[0].resident_bytes
    if left <= 0 or pace is None or pace[0] <= 0 or grown < WRITTEN_SHARE * now.nbytes:
        return None
    speed, low, high = pace
    return Filling(
        name=owner.name, left_bytes=left, low_bytes=left, high_bytes=left, per_s=speed, low=max(0.0, low), high=high,
        full_in_s=left / speed,
    )  # fmt: skip


def _full_at(rows: int, owner: Owner, steps: Mapping[float, int]) -> float | None:
    """The step at which so many more rows are written, from looks that show both, however fast the run goes."""
    seen = [(steps[point.at_s], point.filled or 0) for point in owner.points if point.at_s in steps]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0] or seen[-1][1] <= seen[0][1]:
        return None
    return seen[-1][0] + rows * (seen[-1][0] - seen[0][0]) / (seen[-1][1] - seen[0][1])


def _left_by_rows(owner: Owner) -> tuple[float, float, float]:
    """Allocated whole: what is not resident yet. Row by row: as much again for each row still to come, with a range."""
    first, now = owner.points[0], owner.now
    grows = now.nbytes > first.nbytes and (now.filled or 0) > (first.filled or 0)
    if now.filled and now.capacity and (grows or owner.kind == "container"):
        rows = now.capacity - now.filled
        sizes = [each for point in owner.points[len(owner.points) // 2 :] for each in _row_bytes(point)]
        return now.resident_bytes / now.filled * rows, min(sizes) * rows, max(sizes) * rows
    left = float(now.nbytes - now.resident_bytes)
    return left, left, left


def _row_bytes(point: Point) -> tuple[float, ...]:
    return (point.resident_bytes / point.filled,) if point.filled else ()


def _rate(owner: Owner, values: Sequence[float]) -> tuple[float, float, float] | None:
    """What is gained a second, with a range."""
    times = [point.at_s for point in owner.points]
    if len(times) < 2:
        return None
    slopes = pairwise_slopes((times, values))
    return median(slopes), slopes[len(slopes) // 20], slopes[-1 - len(slopes) // 20]


def foresee(moment: Moment, stores: Stores, *, leak: Trend | None = None, pace: Pace | None = None) -> Forecast:
    """What the tree comes to from this moment on; a leak has no end but the run's own."""
    limit, now, fillings = moment.limit_bytes, moment.tree_bytes, stores.fillings
    end = pace.end_in_s if pace else None
    last = max((each for each in fillings if each.full_in_s is not None), key=lambda each: each.full_in_s or 0, default=None)  # fmt: skip
    if end is not None and last is not None and (last.full_in_s or 0) > end:  # the run ends first
        last = None
    horizon = end if end is not None else None if leak else math.inf
    final = least = most = None
    if horizon is not None:
        left = sum(filling.by(horizon) for filling in fillings)
        low = sum(_taken(filling.low_bytes, filling.low, filling.per_s, horizon) for filling in fillings)
        high = sum(_taken(filling.high_bytes, filling.high, filling.per_s, horizon) for filling in fillings)
        final = round(now + left + _over(leak.per_s if leak else 0.0, horizon))
        least = min(final, round(now + low - stores.less_bytes + _over(leak.low if leak else 0.0, horizon)))
        most = max(final, round(now + high + stores.more_bytes + _over(leak.high if leak else 0.0, horizon)))
    out = _time_to(limit, now, fillings, leak.per_s if leak else 0.0) if limit else None
    if out is not None and end is not None and out > end:
        out = None
    early = late = None
    if out is not None and limit:
        early = _time_to(limit, now, [each.at(each.high) for each in fillings], leak.high if leak else 0.0)
        late = _time_to(limit, now, [each.at(each.low) for each in fillings], leak.low if leak else 0.0)
    fits = None
    if limit is not None and (most is not None or out is not None):
        fits = None if out is None and most is not None and most > limit else out is None
    return Forecast(
        final_bytes=final,
        final_low_bytes=least,
        final_high_bytes=most,
        fits=fits,
        full_in_s=last.full_in_s if last else None,
        full_low_s=last.low_bytes / last.high if last and last.high > 0 else None,
        full_high_s=last.high_bytes / last.low if last and last.low > 0 else None,
        full_at_step=round(last.full_at_step) if last and last.full_at_step is not None else None,
        oom_in_s=out,
        oom_low_s=early,
        oom_high_s=late,
    )


def _taken(left: float, pace: float, known: float | None, seconds: float) -> float:
    return left if known is None or seconds == math.inf else min(left, pace * seconds)


def _over(per_s: float, seconds: float) -> float:
    return per_s * seconds if per_s else 0.0


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
