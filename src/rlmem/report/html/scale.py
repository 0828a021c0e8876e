"""Where a value stands on an axis, and which values are worth a label."""

from __future__ import annotations

from dataclasses import dataclass

from rlmem.units import format_size, shown_units

_STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A straight axis from ``low`` to ``high``."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value stands, from 0 to 1; what lies outside is drawn at the edge."""
        span = self.high - self.low
        return min(1.0, max(0.0, (value - self.low) / span)) if span > 0 else 0.0

    def percent(self, value: float) -> str:
        """The same, for a style sheet."""
        return f"{100 * self.share(value):.2f}%"


def size_ticks(high: float, most: int = 5) -> tuple[tuple[float, str], ...]:
    """Round sizes from nothing to the top of an axis.

    >>> size_ticks(3.5 * 2**30)
    ((0, '0'), (1073741824, '1 GiB'), (2147483648, '2 GiB'), (3221225472, '3 GiB'))
    """
    for unit, nbytes in (("B", 1), *reversed(shown_units())):
        for step in _STEPS:
            if high <= step * nbytes * most:
                count = int(high // (step * nbytes))
                return ((0, "0"), *((n * step * nbytes, f"{n * step:,} {unit}") for n in range(1, count + 1)))
    return ((0, "0"), (high, format_size(high)))


def count_ticks(low: float, high: float, most: int = 4) -> tuple[tuple[float, str], ...]:
    """Round counts along an axis.

    >>> count_ticks(0, 1_000_000)
    ((0, '0'), (500000, '500k'), (1000000, '1M'))
    >>> count_ticks(0, 3)
    ((0, '0'), (1, '1'), (2, '2'), (3, '3'))
    """
    step, scale = 1, 1
    while (high - low) / step > most:
        scale, step = (
            (scale * 10, scale * 10) if step == 5 * scale else (scale, 2 * scale if step == scale else 5 * scale)
        )
    first = -int(-low // step)
    return tuple((n * step, short_count(n * step)) for n in range(first, int(high // step) + 1))


def short_count(value: float) -> str:
    """``400k``, ``1.3M``.

    >>> short_count(1_300_000), short_count(400_000), short_count(999), short_count(12_345)
    ('1.3M', '400k', '999', '12,345')
    """
    for scale, letter in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= scale and round(value * 100 / scale) * scale == value * 100:
            return f"{value / scale:g}{letter}"
    return f"{value:,.0f}"
