"""The verdict on a series of moments: normal, filling, leaking or stuck, and who is to blame. Pure; no files, no clock.

Meaning comes first: what becomes resident inside a store with a capacity, or inside an array allocated whole, has an end
and is *filling*. What is left after those is the residual; only if it grows by more than noise and does not slow down
is it *leaking* (``rlmem.watch.growth`` has the tests). A container without a bound whose count rises all along is the
culprit, the one that takes most bytes a second first. A verdict of leaking that is wrong is worse than one that is
late: growth that would need more than a month to matter, or whose owners have no names, is said and not called a leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from rlmem.moments import Forecast, Growth, Judgement, Moment
from rlmem.watch import words
from rlmem.watch.forecast import Filling, Pace, foresee, read_fillings, read_pace
from rlmem.watch.growth import FEWEST, Trend, find_trend
from rlmem.watch.owners import Owner, bounded_bytes, looks, read_owners

#: Growth that needs longer than this to reach the limit (or, without one, to double) does not matter to a run.
MATTERS_S = 30 * words.DAY
#: Growth without an owner is believed as far as this many times the time it was seen for: what libraries do in the first
#: minute (pages of code, allocator pools) would otherwise be a leak that ends next week.
BELIEVED = 50
#: Under this share of one core, with nothing that changes, a program does nothing; our own questions cost less.
IDLE_SHARE = 0.005
#: An owner takes the blame for a leak when it accounts for at least this share of it.
BLAME_SHARE = 0.2
#: Stores that will still take less than this share of what is there do not make a run *filling*.
SMALL_SHARE = 0.005
#: As many times the usual size of others with the same command is no chance.
OUTSIZED = 4
VRAM = "vram"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """Everything the verdict is taken from."""

    last: Moment
    samples: int
    total: Trend | None
    residual: Trend | None
    vram: Trend | None
    owners: tuple[Owner, ...]
    fillings: tuple[Filling, ...]
    pace: Pace | None
    has_names: bool
    is_outsized: bool
    idle_s: float | None


def judge(moments: Sequence[Moment], siblings: Sequence[int] = ()) -> Judgement:
    """What a series of moments means. ``siblings``: bytes held by other processes that run the same command."""
    if not moments:
        return Judgement(state="unknown", reasons=("nothing was seen",))
    seen = _look(moments, siblings)
    state, reasons, culprit, forecast = _verdict(seen)
    if seen.is_outsized:
        reasons = (*reasons, words.outsized(seen.last, siblings))
    return Judgement(
        state=state,
        reasons=reasons,
        culprit=culprit.name if culprit else None,
        total=_growth("total", seen.total),
        residual=_growth("residual", seen.residual),
        owners=tuple(sorted((owner.growth for owner in seen.owners), key=lambda growth: -growth.bytes_per_s)),
        forecast=forecast,
    )


def _look(moments: Sequence[Moment], siblings: Sequence[int]) -> _Seen:
    last = moments[-1]
    times = [moment.at_s for moment in moments]
    asked = looks(moments)
    owners = read_owners(asked)
    usual = median(siblings) if len(siblings) > 1 else 0
    graphics = [moment for moment in moments if moment.vram_bytes is not None]
    return _Seen(
        last=last,
        samples=len(moments),
        total=find_trend(times, [moment.tree_bytes for moment in moments]),
        residual=_residual(moments, asked, owners),
        vram=find_trend([moment.at_s for moment in graphics], [moment.vram_bytes or 0 for moment in graphics]),
        owners=owners,
        fillings=read_fillings(owners, asked),
        pace=read_pace(moments),
        has_names=bool(asked),
        is_outsized=usual > 0 and last.tree_bytes > max(OUTSIZED * usual, 2 * max(siblings)),
        idle_s=_idle(moments),
    )


def _residual(moments: Sequence[Moment], asked: Sequence[Moment], owners: Sequence[Owner]) -> Trend | None:
    """What the tree holds less what is resident in owners with an end, between the first and the last look."""
    if len(asked) < 2:
        return None
    part = [moment for moment in moments if asked[0].at_s <= moment.at_s <= asked[-1].at_s]
    times = [moment.at_s for moment in part]
    ended = bounded_bytes(asked, owners, times)
    return find_trend(times, [moment.tree_bytes - each for moment, each in zip(part, ended, strict=True)])


def _idle(moments: Sequence[Moment]) -> float | None:
    """For how long CPU time, steps and the fill of owners stood still; None when one moved, or it is too short to tell."""
    window = moments[-FEWEST:]
    first, last = window[0], window[-1]
    elapsed = last.at_s - first.at_s
    if len(window) < FEWEST or not last.cpu_s or last.cpu_s - first.cpu_s > IDLE_SHARE * elapsed:
        return None
    steps = {moment.progress.step for moment in window if moment.progress is not None}
    asked = [moment.holdings for moment in window if moment.holdings is not None]
    fills = {tuple(sorted((held.path, held.filled) for held in each if held.filled is not None)) for each in asked}
    return elapsed if len(steps) < 2 and len(fills) < 2 else None


_Verdict = tuple[str, tuple[str, ...], Owner | None, Forecast]


def _verdict(seen: _Seen) -> _Verdict:
    plain = foresee(seen.last, seen.fillings, pace=seen.pace)
    if seen.idle_s is not None:
        return "stuck", (f"no CPU time and no step for {words.duration(seen.idle_s)}",), None, plain
    return _leaking(seen) or _leaking_vram(seen, plain) or _filling(seen, plain) or _quiet(seen, plain)


def _leaking(seen: _Seen) -> _Verdict | None:
    trend, name = seen.residual, "residual"
    if trend is None and not seen.has_names and seen.is_outsized:  # no names, but others show what is usual
        trend, name = seen.total, "total"
    if trend is None or not (trend.goes_on and _matters(trend.per_s, seen.last)):
        trend = None
    culprit = _culprit(seen.owners, trend, seen.last)
    if trend is not None and culprit is None and not (seen.is_outsized or _is_near(trend, seen.last)):
        return None
    if trend is None:
        if culprit is None or seen.samples < FEWEST or culprit.growth.bytes_per_s <= 0:
            return None
        trend = _trend_of(culprit, seen.last)
        name = f"`{culprit.name}`"
        if culprit.keeps_graphs and seen.total is not None and seen.total.goes_on and not seen.fillings:
            trend, name = seen.total, "total"  # its own bytes are the least of it
    forecast = foresee(seen.last, seen.fillings, leak=trend, pace=seen.pace)
    reasons = [words.leaks(_named(name, trend), forecast, culprit)]
    if culprit is not None and culprit.keeps_graphs:
        reasons.append(words.keeps_graphs(culprit))
    if _still_fills(seen):
        reasons.append(words.fills(foresee(seen.last, seen.fillings, pace=seen.pace), seen.last.limit_bytes))
    return "leaking", tuple(reasons), culprit, forecast


def _culprit(owners: Iterable[Owner], leak: Trend | None, last: Moment, device: str = "ram") -> Owner | None:
    """The unbounded owner that grows fastest, if it accounts for the leak, or by itself would matter."""
    free = [owner for owner in owners if not owner.is_bounded and owner.device == device]
    free.sort(key=lambda owner: -owner.growth.bytes_per_s)
    if leak is None:
        growing = (owner for owner in free if owner.growth.significant)
        return next((owner for owner in growing if _matters(owner.growth.bytes_per_s, last, device)), None)
    rising = [owner for owner in free if owner.growth.significant or owner.keeps_rising]
    enough = (owner for owner in rising if owner.growth.bytes_per_s >= BLAME_SHARE * leak.per_s)
    # A kept graph holds activations that no walk over objects sees: its own bytes say little.
    return next(enough, None) or next((owner for owner in rising if owner.keeps_graphs), None)


def _leaking_vram(seen: _Seen, plain: Forecast) -> _Verdict | None:
    """As in RAM, but for stores: nothing on a GPU is allocated before it is used."""
    trend, last = seen.vram, seen.last
    if trend is None or not (trend.goes_on and _matters(trend.per_s, last, VRAM)):
        trend = None
    culprit = _culprit(seen.owners, trend, last, VRAM)
    if culprit is None and (trend is None or not _is_near(trend, last, VRAM)):
        return None
    if trend is None:
        if culprit is None or seen.samples < FEWEST or culprit.growth.bytes_per_s <= 0:
            return None
        trend = _trend_of(culprit, last)
    forecast = Forecast(final_bytes=plain.final_bytes, fits=plain.fits, full_in_s=plain.full_in_s)
    if last.vram_limit_bytes is not None:
        room = _room(last, VRAM)
        forecast = Forecast(
            fits=False,
            oom_in_s=room / trend.per_s,
            oom_low_s=room / trend.high,
            oom_high_s=room / trend.low if trend.low > 0 else None,
        )
    return "leaking", (words.leaks(_named("VRAM", trend), forecast, culprit),), culprit, forecast


def _trend_of(owner: Owner, last: Moment) -> Trend:
    """An owner's growth, where the total's is lost in its noise."""
    growth = owner.growth
    return Trend(
        per_s=growth.bytes_per_s,
        low=max(0.0, growth.low),
        high=growth.high,
        significant=True,
        steady=True,
        seconds=last.at_s - owner.points[0].at_s,
    )


def _still_fills(seen: _Seen) -> bool:
    left = sum(filling.left_bytes for filling in seen.fillings if filling.per_s)
    return left > SMALL_SHARE * seen.last.tree_bytes


def _filling(seen: _Seen, plain: Forecast) -> _Verdict | None:
    if not _still_fills(seen):
        return None
    largest = max((filling for filling in seen.fillings if filling.per_s), key=lambda filling: filling.left_bytes)
    owner = next(owner for owner in seen.owners if owner.name == largest.name)
    end = seen.pace.end_in_s if seen.pace else None
    reasons = [words.fills(plain, seen.last.limit_bytes, end_in_s=end), words.how_full(owner)]
    residual = seen.residual
    if residual is not None and residual.goes_on and _matters(residual.per_s, seen.last):
        reasons.append(words.too_early(_named("residual", residual), residual.seconds))
    return "filling", tuple(reasons), None, plain


def _quiet(seen: _Seen, plain: Forecast) -> _Verdict:
    """Nothing to blame: too short, growing without names, settling, or flat."""
    total = seen.total
    if total is None:
        text = f"too short to tell: {seen.samples} of {FEWEST} samples"
        return "unknown", (text,), None, plain
    if total.goes_on and _matters(total.per_s, seen.last):
        forecast = foresee(seen.last, seen.fillings, leak=total, pace=seen.pace)
        growth = _named("total", total)
        if not seen.has_names:
            return "unknown", (words.without_names(growth, forecast),), None, forecast
        if seen.residual is None:
            return "unknown", (words.waits_for_owners(growth),), None, forecast
        inside = sum(owner.growth.bytes_per_s for owner in seen.owners if owner.is_bounded and owner.device == "ram")
        if seen.residual.goes_on or inside < total.per_s / 2:
            return "unknown", (words.too_early(growth, total.seconds),), None, forecast
        return "normal", (f"grows {words.rate(total.per_s)} inside its stores",), None, plain
    if total.significant and not total.steady:
        return "normal", (f"grew {words.rate(total.per_s)}, and slows down",), None, plain
    if total.goes_on:
        return "normal", (f"grows {words.rate(total.per_s)}: too slow to matter",), None, plain
    return "normal", (f"nothing grows over {words.duration(total.seconds)}",), None, plain


def _matters(per_s: float, last: Moment, device: str = "ram") -> bool:
    return per_s > 0 and _room(last, device) / per_s < MATTERS_S


def _is_near(trend: Trend, last: Moment, device: str = "ram") -> bool:
    return _room(last, device) <= BELIEVED * trend.seconds * trend.per_s


def _room(last: Moment, device: str = "ram") -> int:
    """What is left under the limit; without one, as much again as there is."""
    used, limit = last.tree_bytes, last.limit_bytes
    if device == VRAM:
        used, limit = last.vram_bytes or 0, last.vram_limit_bytes
    return max(0, limit - used) if limit is not None else used


def _named(name: str, trend: Trend) -> Growth:
    return Growth(
        name=name, bytes_per_s=trend.per_s, low=trend.low, high=trend.high, significant=trend.significant
    )  # fmt: skip


def _growth(name: str, trend: Trend | None) -> Growth | None:
    return _named(name, trend) if trend is not None else None
