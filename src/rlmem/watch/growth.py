"""Does a series grow, how fast, and will it go on? Rank statistics on blocks of samples; no files, no clocks.

A series is cut into blocks of equal time, and each block is its median: short spikes vanish, and what is left is nearly
independent. Growth must then pass two tests, because memory wanders in two ways:

- Mann–Kendall on 48 blocks, corrected for ties and (Hamed and Rao, 1998) for autocorrelation: is it more than noise
  around a constant?
- a t test or a signed-rank test (Wilcoxon) on the differences of 16 blocks: is it more than wandering without a
  direction? One step, or three, do not pass, however large: their differences are few and the rest are zero. A line
  beside a step passes by its ranks.

It is *steady* when the second half of the window grows too, at a rate comparable to the first: an allocator that warms
up, or a cache that fills, slows down. The rate is Theil and Sen's, the range that of its 90 % interval.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, median, stdev

#: Fewer samples than this are too short to tell anything: 100 s at one a second.
FEWEST = 100
#: Unless growth is so fast, large and without a fall that waiting would be worse: 20 s at one a second.
FEWEST_FAST = 20
#: Such growth made at least this share of what there is, and reaches the limit within as many times the time it was seen.
LARGE, SOON = 0.25, 5
#: Of how many series without any growth one may pass, in each of the two tests.
ALPHA = 0.002
#: The second half has half of the data, and its growth was seen in the whole already.
HALF_ALPHA = 0.05
FINE, COARSE, FAST = 48, 16, 12
#: Second half against first: under the first share growth dies out; under the second it does if that is more than noise.
DIES_OUT, SLOWS = 0.8, 0.9
#: A step so many times as far from the usual change as any other is one of its own kind.
LONE = 4
#: A later part must end above all before it, by this share of its own rise: a return to an earlier level is no growth.
NEW_HIGH = 0.25
#: Parts of the history that are looked at, longest first: what began later is found later, in proportion.
PARTS = (1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125)
RANGE = 0.90

Series = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A rate per second with its range; whether the growth is more than noise, goes on, and gets faster."""

    per_s: float
    low: float
    high: float
    significant: bool
    steady: bool
    seconds: float
    quickens: bool = False

    @property
    def goes_on(self) -> bool:
        """Growth without a visible end."""
        return self.significant and self.steady


def find_trend(times: Sequence[float], values: Sequence[float], *, fewest: int = FEWEST) -> Trend | None:
    """The longest part of the series, up to now, that grows steadily; else the whole. None when it is too short."""
    if len(times) < fewest or times[-1] <= times[0]:
        return None
    best: Trend | None = None
    for start in _starts(times, fewest):
        trend = measure_trend(times[start:], values[start:])
        if trend.goes_on and (start == 0 or _began(times, values, start, trend)):
            if not trend.quickens:
                return trend
            best = trend  # a shorter part may show how fast it is by now
        best = best or trend
    return best


def find_surge(times: Sequence[float], values: Sequence[float], *, limit: float) -> Trend | None:
    """Growth that is told before there are enough samples: fast, large, without a fall, and soon at the limit."""
    if len(times) < FEWEST_FAST or times[-1] <= times[0]:
        return None
    for start in _starts(times, FEWEST_FAST):
        series = blocks(times[start:], values[start:], FAST)
        rates, (_, sizes), seconds = rates_of(series), series, times[-1] - times[start]
        if min(rates) < 0 or not drifts(rates, ALPHA) or not is_steady(rates):
            continue
        slopes = pairwise_slopes(series)
        rate = median(slopes)
        is_soon = limit - values[-1] <= SOON * seconds * rate
        if is_soon and sizes[-1] - sizes[0] >= LARGE * sizes[-1]:
            low, high = slopes[len(slopes) // 20], slopes[-1 - len(slopes) // 20]
            return Trend(per_s=rate, low=low, high=high, significant=True, steady=True, seconds=seconds)
    return None


def _starts(times: Sequence[float], fewest: int) -> Iterator[int]:
    span, last = times[-1] - times[0], -1
    for part in PARTS:
        start = bisect_left(times, times[-1] - part * span)
        if len(times) - start >= fewest and start != last:
            yield start
            last = start


def _began(times: Sequence[float], values: Sequence[float], start: int, trend: Trend) -> bool:
    """Whether growth began with this part: it leads to a new high, and is not the tail of growth that slows down."""
    rise = trend.per_s * trend.seconds
    count = max(1, round(COARSE * (times[start] - times[0]) / trend.seconds))
    before = blocks(times[:start], values[:start], count)[1]
    after = blocks(times[start:], values[start:], COARSE)[1]
    if after[-1] < max(before) + NEW_HIGH * rise:
        return False
    early = bisect_left(times, times[start] - trend.seconds)
    rates = rates_of(blocks(times[early : start + 1], values[early : start + 1], COARSE))
    # The median: a burst before it (imports, a model that is built) is no growth that slows down.
    return not (drifts(rates, HALF_ALPHA) and median(rates) * DIES_OUT > trend.per_s)


def measure_trend(times: Sequence[float], values: Sequence[float]) -> Trend:
    """The trend of one window; the slow part of the work is left out when the fast part says no."""
    rates = rates_of(blocks(times, values, COARSE))
    seconds = times[-1] - times[0]
    if not drifts(rates, ALPHA):
        rate = fmean(rates) if rates else 0.0
        return Trend(per_s=rate, low=rate, high=rate, significant=False, steady=False, seconds=seconds)
    fine = _level(blocks(times, values, FINE))
    slopes = pairwise_slopes(fine)
    score, variance = mann_kendall(fine, median(slopes))
    low, high = _interval(slopes, variance)
    passes = score > 0 and NormalDist().cdf(-(score - 1) / math.sqrt(variance)) < ALPHA if variance > 0 else False
    return Trend(
        per_s=median(slopes),
        low=low,
        high=high,
        significant=passes,
        steady=is_steady(rates),
        seconds=seconds,
        quickens=fmean(rates[: len(rates) // 2]) < DIES_OUT * fmean(rates[len(rates) // 2 :]),
    )  # fmt: skip


def _level(series: Series) -> Series:
    """The same without one lone step, which says nothing of the pace beside it."""
    times, values = series
    changes = [after - before for before, after in pairwise(values)]
    if len(changes) < 3:
        return series
    *_, second, largest = sorted(changes)
    usual = median(changes)
    if largest - usual <= LONE * (second - usual):
        return series
    place = changes.index(largest) + 1
    return times, [*values[:place], *(value - largest + usual for value in values[place:])]


def blocks(times: Sequence[float], values: Sequence[float], count: int) -> tuple[list[float], list[float]]:
    """Medians of at most ``count`` blocks of equal time; a block without a sample is left out.

    >>> blocks([0, 1, 2, 3], [5, 7, 100, 9], 2)
    ([0.5, 2.5], [6.0, 54.5])
    """
    width = (times[-1] - times[0]) / count
    if width <= 0:
        return [median(times)], [median(values)]
    parts: list[tuple[list[float], list[float]]] = [([], []) for _ in range(count)]
    for time, value in zip(times, values, strict=True):
        part = parts[min(count - 1, int((time - times[0]) / width))]
        part[0].append(time)
        part[1].append(value)
    full = [part for part in parts if part[0]]
    return [median(part[0]) for part in full], [median(part[1]) for part in full]


def rates_of(series: Series) -> list[float]:
    """Differences per second between neighbours."""
    return [(after - before) / (late - early) for (early, before), (late, after) in pairwise(zip(*series, strict=True))]


def drifts(rates: Sequence[float], alpha: float) -> bool:
    """Whether differences are above zero by more than their scatter allows: by their mean, or by their ranks.

    One large step among small rises makes the scatter so large that a t test sees no growth; ranks do not mind its size.
    """
    if len(rates) < 3 or (mean := fmean(rates)) <= 0:
        return False
    return mean > student(alpha, len(rates) - 1) * stdev(rates) / math.sqrt(len(rates)) or signed_rank(rates) < alpha


def signed_rank(rates: Sequence[float]) -> float:
    """How often differences without a direction rise as much as these by chance (Wilcoxon, one-sided, exact).

    >>> signed_rank([1.0, 2.0, 3.0, 4.0, 90.0]), signed_rank([-1.0, 2.0]), signed_rank([0.0, 0.0, 5.0])
    (0.03125, 0.5, 0.5)
    """
    sizes = sorted((abs(rate), rate > 0) for rate in rates if rate)
    score = sum(rank for rank, (_, rises) in enumerate(sizes, 1) if rises)
    ways = [1]  # by sum of ranks: in how many of all choices of signs it comes out
    for rank in range(1, len(sizes) + 1):
        longer = [*ways, *[0] * rank]
        for total, count in enumerate(ways):
            longer[total + rank] += count
        ways = longer
    return float(sum(ways[score:]) / 2 ** len(sizes))


def student(alpha: float, freedom: int) -> float:
    """The upper quantile of Student's t by Fisher's expansion about the normal's; 4 % low at 4 degrees, 1 % at 7.

    >>> round(student(0.01, 14), 2)
    2.62
    """
    z = NormalDist().inv_cdf(1 - alpha)
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)


def is_steady(rates: Sequence[float]) -> bool:
    """Whether growth goes on to the end: the second half grows, not clearly slower, and the last quarter still does."""
    half, quarter = len(rates) // 2, max(1, len(rates) // 4)
    first, second = rates[:half], rates[half:]
    if median(rates[-quarter:]) <= 0 or not drifts(second, HALF_ALPHA):
        return False
    if half > 2:  # one step, however large, is no pace that is lost
        first = sorted(first)[:-1]
    before, after = fmean(first), fmean(second)
    if after < DIES_OUT * before:
        return False
    scatter = math.sqrt(stdev(first) ** 2 / len(first) + stdev(second) ** 2 / len(second)) if len(first) > 1 else 0.0
    slower = before - after > student(HALF_ALPHA, max(1, len(rates) - 2)) * scatter
    return not (after < SLOWS * before and slower)


def pairwise_slopes(series: Series) -> list[float]:
    """Theil and Sen's: the slope between every two points, sorted; their median is the rate."""
    times, values = series
    return sorted(
        (values[late] - values[early]) / (times[late] - times[early])
        for late in range(1, len(times))
        for early in range(late)
    )


def mann_kendall(series: Series, slope: float) -> tuple[int, float]:
    """Kendall's score (pairs that rise less pairs that fall) and its variance, if nothing but noise were there.

    The variance is corrected for ties, and widened by the autocorrelation of what is left after the slope is taken away
    (Hamed and Rao); it is never narrowed by it.
    """
    times, values = series
    count = len(values)
    score = sum(
        (values[late] > values[early]) - (values[late] < values[early])
        for late in range(1, count)
        for early in range(late)
    )
    ties: dict[float, int] = {}
    for value in values:
        ties[value] = ties.get(value, 0) + 1
    variance = count * (count - 1) * (2 * count + 5) - sum(n * (n - 1) * (2 * n + 5) for n in ties.values())
    left = [value - slope * time for time, value in zip(times, values, strict=True)]
    return score, variance / 18 * _inflation(left, max(values) - min(values))


def _inflation(left: Sequence[float], scale: float) -> float:
    """How much more the score of an autocorrelated series scatters than that of an independent one."""
    count = len(left)
    if count < 4 or max(left) - min(left) <= 1e-9 * scale:  # an exact line leaves rounding errors only
        return 1.0
    ranks = _ranks(left)
    middle = fmean(ranks)
    off = [rank - middle for rank in ranks]
    power = sum(each * each for each in off)
    noise = NormalDist().inv_cdf(0.975) / math.sqrt(count)
    total = 0.0
    for lag in range(1, count - 2):
        correlation = sum(a * b for a, b in zip(off, off[lag:], strict=False)) / power
        if abs(correlation) > noise:
            total += (count - lag) * (count - lag - 1) * (count - lag - 2) * correlation
    return max(1.0, 1 + 2 * total / (count * (count - 1) * (count - 2)))


def _ranks(values: Sequence[float]) -> list[float]:
    """The place of each value in their order; equal values share the middle of theirs."""
    order = sorted(values)
    return [(bisect_left(order, value) + bisect_right(order, value) - 1) / 2 for value in values]


def _interval(slopes: Sequence[float], variance: float) -> tuple[float, float]:
    """Sen's interval for the slope, from the variance of Kendall's score."""
    wide = NormalDist().inv_cdf(0.5 + RANGE / 2) * math.sqrt(max(0.0, variance))
    low = max(0, math.floor((len(slopes) - wide) / 2))
    high = min(len(slopes) - 1, math.ceil((len(slopes) + wide) / 2))
    return slopes[low], slopes[high]
