"""The verdict on a series of moments: normal, filling, leaking or stuck, and who is to blame. Pure; no files, no clock.

Meaning comes first: what becomes resident inside a store with a capacity, or inside an array allocated whole, has an end
and is *filling*. What is left after those is the residual; only if it grows by more than noise and does not slow down
is it *leaking* (``rlmem.watch.growth`` has the tests). A container without a bound whose count rises all along is the
culprit, the one that takes most bytes a second first; if it took most of what the total gained, that is a leak also where
owners were asked too seldom for a residual. A verdict of leaking that is wrong is worse than one that is late: growth
that would need more than a month to matter, or whose owners have no names, is said and not called a leak.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from rlmem.core.amounts import rate
from rlmem.core.moments import Forecast, Growth, Judgement, Moment
from rlmem.units import DAY
from rlmem.watch import words
from rlmem.watch.forecast import foresee
from rlmem.watch.growth import DIES_OUT, FEWEST, Trend, blocks
from rlmem.watch.owners import Owner
from rlmem.watch.seen import VRAM, Seen, read_seen

#: Growth that needs longer than this to reach the limit (or, without one, to double) does not matter to a run.
MATTERS_S = 30 * DAY
#: Growth without an owner is believed as far as this many times the time it was seen for: what libraries do in the first
#: minute (pages of code, allocator pools) would otherwise be a leak that ends next week.
BELIEVED = 50
#: An owner takes the blame for a leak when it accounts for at least this share of it.
BLAME_SHARE = 0.2
#: Owners that account for this share of what the total gains say what it is.
MOST_SHARE = 0.5
#: A process that ends gives its memory back before it is gone: what fell by so much in its last moments says nothing.
END_SHARE, END_MOMENTS = 0.1, 5
#: Threads that rise in each of so many parts of the time, by so many and to twice as many, are never joined.
THREAD_PARTS, FEW_THREADS = 6, 16
#: Stores that will still take less than this share of what is there do not make a run *filling*.
SMALL_SHARE = 0.005


def judge(moments: Sequence[Moment], siblings: Sequence[int] = ()) -> Judgement:
    """What a series of moments means. ``siblings``: bytes held by other processes that run the same command."""
    if not moments:
        return Judgement(state="unknown", reasons=("nothing was seen",))
    seen = read_seen(moments, siblings)
    state, reasons, culprit, forecast = _verdict(seen)
    if state in {"leaking", "unknown"} and (risen := _threads_risen(moments)) is not None:
        reasons = (f"{reasons[0]}; {words.more_threads(*risen)}", *reasons[1:])
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


def _threads_risen(moments: Sequence[Moment]) -> tuple[int, int] | None:
    """The threads at first and by now, where they became more and more all the time: each keeps a stack, and what it works on."""
    parts = blocks([moment.at_s for moment in moments], [float(moment.threads) for moment in moments], THREAD_PARTS)[1]
    first, last = round(parts[0]), moments[-1].threads
    is_rising = len(parts) == THREAD_PARTS and all(after > before for before, after in pairwise(parts))
    return (first, last) if is_rising and last - first >= max(FEW_THREADS, first) else None


def before_end(moments: Sequence[Moment]) -> Sequence[Moment]:
    """The moments of a run that has ended, without those in which it was giving its memory back."""
    last = moments[-END_MOMENTS - 1 :]
    highest = max((moment.tree_bytes for moment in last), default=0)
    kept = len(moments)
    while kept > len(moments) - END_MOMENTS and kept > 1:
        if moments[kept - 1].tree_bytes >= (1 - END_SHARE) * highest:
            break
        kept -= 1
    return moments[:kept]


_Verdict = tuple[str, tuple[str, ...], Owner | None, Forecast]


def _verdict(seen: Seen) -> _Verdict:
    plain = foresee(seen.last, seen.stores, pace=seen.pace)
    if seen.pause_s is not None:  # nothing at all has moved, so nothing grows now, whatever did before
        return "stuck", (words.still(seen.pause_s),), None, plain
    return _leaking(seen) or _leaking_vram(seen, plain) or _filling(seen, plain) or _quiet(seen, plain)


def _leaking(seen: Seen) -> _Verdict | None:
    trend, name = seen.residual, "residual"
    if trend is None and not seen.has_names and seen.is_outsized:  # no names, but others show what is usual
        trend, name = seen.total, "total"
    if trend is None or not (trend.goes_on and _matters(trend.per_s, seen.last)):
        trend = None
    culprit = _culprit(seen, trend)
    if trend is not None and culprit is None and not (seen.is_outsized or _is_near(trend, seen.last)):
        return None
    if trend is None and (owned := _owned(seen)) is not None:
        trend, name, culprit = seen.total, "total", owned
    if trend is None:
        if culprit is None or seen.samples < FEWEST or culprit.growth.bytes_per_s <= 0:
            return None
        trend, name = _trend_of(culprit, seen.last), f"`{culprit.name}`"
    forecast = foresee(seen.last, seen.stores, leak=trend, pace=seen.pace)
    reasons = [words.leaks(_named(name, trend), forecast, culprit)]
    if culprit is not None and culprit.added_at:
        reasons.append(words.added(culprit))
    if culprit is not None and culprit.keeps_graphs:
        reasons.append(words.keeps_graphs(culprit))
    if _still_fills(seen):
        reasons.append(words.fills(foresee(seen.last, seen.stores, pace=seen.pace), seen.last.limit_bytes))
    share = min(1.0, _gain(seen, culprit) / trend.per_s) if culprit else 0.0
    reasons.append(words.evidence(trend, culprit, seen.looks, share))
    return "leaking", tuple(reasons), culprit, forecast


def _culprit(seen: Seen, leak: Trend | None, device: str = "ram") -> Owner | None:
    """The unbounded owner that grows fastest, if it accounts for the leak, or by itself would matter."""
    rising = seen.rising(device)
    if leak is None:
        proven = (owner for owner in rising if owner.growth.significant)
        return next((owner for owner in proven if _matters(owner.growth.bytes_per_s, seen.last, device)), None)
    enough = (owner for owner in rising if _gain(seen, owner) >= BLAME_SHARE * leak.per_s)
    # A kept graph holds activations that no walk over objects sees: its own bytes say little.
    return next(enough, None) or _keeper(rising)


def _gain(seen: Seen, owner: Owner) -> float:
    """Bytes a second of an owner, with those of the other workers that have it too."""
    twins = max(1.0, seen.last.processes - 1) if seen.stands_for(owner) > 1 else 1.0
    return owner.growth.bytes_per_s * twins


def _keeper(owners: Iterable[Owner]) -> Owner | None:
    return next((owner for owner in owners if owner.keeps_graphs), None)


def _owned(seen: Seen) -> Owner | None:
    """Who takes most of what the total gains, where owners were seen too seldom or too long ago for a residual."""
    total, residual = seen.total, seen.residual
    if total is None or not (total.goes_on and _matters(total.per_s, seen.last)):
        return None
    if seen.inside_per_s >= MOST_SHARE * total.per_s:
        return None
    rising = seen.rising()
    is_recent = residual is not None and residual.seconds >= MOST_SHARE * total.seconds
    if is_recent:  # it was looked at, and does not grow for certain: only what does by itself counts
        rising = tuple(owner for owner in rising if owner.growth.significant)
    named = sum(owner.growth.bytes_per_s * seen.stands_for(owner) for owner in rising)
    return rising[0] if rising and named >= MOST_SHARE * total.per_s else _keeper(rising)


def _leaking_vram(seen: Seen, plain: Forecast) -> _Verdict | None:
    """As in RAM, but for stores: nothing on a GPU is allocated before it is used."""
    trend, last = seen.vram, seen.last
    if trend is None or not (trend.goes_on and _matters(trend.per_s, last, VRAM)):
        trend = None
    culprit = _culprit(seen, trend, VRAM)
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


def _still_fills(seen: Seen) -> bool:
    return seen.stores.left_bytes > SMALL_SHARE * seen.last.tree_bytes


def _filling(seen: Seen, plain: Forecast) -> _Verdict | None:
    if not _still_fills(seen):
        return None
    filling = (each for each in seen.stores.fillings if each.per_s)
    largest = max(filling, key=lambda each: each.left_bytes)
    owner = next(owner for owner in seen.owners if owner.name == largest.name)
    end = seen.pace.end_in_s if seen.pace else None
    reasons = [words.fills(plain, seen.last.limit_bytes, end_in_s=end), words.how_full(owner)]
    residual = seen.residual
    if residual is not None and residual.goes_on and _matters(residual.per_s, seen.last):
        reasons.append(_too_early(seen, "residual", residual))
    return "filling", tuple(reasons), None, plain


def _quiet(seen: Seen, plain: Forecast) -> _Verdict:
    """Nothing to blame: too short, growing without names, settling, or flat."""
    total, shape = seen.total, seen.shape
    is_beside = seen.residual is not None and seen.residual.goes_on
    if shape is not None and not is_beside and (full := _full(seen, shape.gained_bytes)) is not None:
        return "normal", (words.is_full(full, shape),), None, plain
    if total is not None and total.goes_on:
        return _grows(seen, total, plain)
    if total is None or shape is None:
        largest = _largest(seen, shape.gained_bytes / shape.seconds) if shape is not None else None
        return "unknown", (words.too_short(shape, seen.samples, FEWEST, largest),), None, plain
    if shape.name != "rises":
        return "normal", (words.shaped(shape),), None, plain
    if not _matters(shape.gained_bytes / shape.seconds, seen.last):
        return "normal", (f"grows {rate(shape.gained_bytes / shape.seconds)}: too slow to matter",), None, plain
    if shape.late_per_s < DIES_OUT * shape.early_per_s:
        return "normal", (words.slows(shape),), None, plain
    return "unknown", (words.may_grow(shape, _largest(seen, shape.gained_bytes / shape.seconds)),), None, plain


def _full(seen: Seen, gained: float) -> Owner | None:
    """The store that took most of what the total gained, and has no room left."""
    ended = (owner for owner in seen.owners if owner.is_bounded and owner.device == "ram")
    full = [each for each in ended if each.now.filled is not None and each.now.filled == each.now.capacity]
    largest = max(full, key=lambda each: each.gained_bytes, default=None)
    return largest if largest is not None and 0 < gained <= largest.gained_bytes / MOST_SHARE else None


def _grows(seen: Seen, total: Trend, plain: Forecast) -> _Verdict:
    """The total grows for certain, and it is not clear what that is."""
    if not _matters(total.per_s, seen.last):
        return "normal", (f"grows {rate(total.per_s)}: too slow to matter",), None, plain
    forecast = foresee(seen.last, seen.stores, leak=total, pace=seen.pace)
    if not seen.has_names:
        return "unknown", (words.without_names(_named("total", total), forecast),), None, forecast
    residual_grows = seen.residual is not None and seen.residual.goes_on
    if seen.inside_per_s >= MOST_SHARE * total.per_s and not residual_grows:
        return "normal", (f"grows {rate(total.per_s)} inside its stores",), None, plain
    return "unknown", (_too_early(seen, "total", total, forecast),), None, forecast


def _too_early(seen: Seen, name: str, trend: Trend, forecast: Forecast | None = None) -> str:
    """Growth that is not called a leak yet: how fast, in whom, and what would settle it."""
    room = _room(seen.last)
    wait = room / (BELIEVED * trend.per_s) - trend.seconds
    return words.too_early(
        _named(name, trend),
        trend.seconds,
        _largest(seen, trend.per_s),
        looks=seen.looks,
        wait_s=wait,
        forecast=forecast,
    )


def _largest(seen: Seen, per_s: float) -> tuple[Owner, float] | None:
    """The owner without an end that took most so far, with its share of some growth, where that is worth a word."""
    free = [owner for owner in seen.owners if not owner.is_bounded and owner.device == "ram"]
    owner = max(free, key=lambda owner: owner.growth.bytes_per_s, default=None)
    share = _gain(seen, owner) / per_s if owner is not None and per_s > 0 else 0.0
    return (owner, share) if owner is not None and share >= BLAME_SHARE else None


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
