"""Counts, rates and sizes in words, as short as they can be read."""

from __future__ import annotations

from rlmem.units import DAY, HOUR, MIB, MINUTE, format_size


def count(number: float) -> str:
    """A count with its thousands shortened.

    >>> count(1_000_000), count(3_100), count(42), count(2.5)
    ('1.0 M', '3.1 k', '42', '2.5')
    """
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 0.9995 * scale:
            return (
                f"{number / scale:.1f} {letter}" if abs(number) < 99.95 * scale else f"{number / scale:,.0f} {letter}"
            )
    return f"{number:.1f}" if 0 < abs(number) < 9.95 and number != round(number) else f"{number:.0f}"


def _per(per_s: float, enough: float) -> tuple[float, str]:
    """The rate in the smallest unit of time in which it is enough to be read."""
    for seconds, unit in ((MINUTE, "min"), (HOUR, "h")):
        if abs(per_s) * seconds >= enough:
            return per_s * seconds, unit
    return per_s * DAY, "d"


def rate(bytes_per_s: float) -> str:
    """Bytes a minute, or an hour or a day where that would be next to nothing.

    >>> rate(700_000), rate(3_000), rate(10)
    ('40.1 MiB/min', '10.3 MiB/h', '844 KiB/d')
    """
    amount, unit = _per(bytes_per_s, MIB)
    return f"{format_size(amount)}/{unit}"


def items(items_per_s: float) -> str:
    """``+3.1 k/min``."""
    amount, unit = _per(items_per_s, 1)
    return f"{'+' if amount >= 0 else '−'}{count(abs(amount))}/{unit}"


def sizes(nbytes: int, low: int | None, high: int | None) -> str:
    """A size with its range, where that says more.

    >>> sizes(20 << 30, 19 << 30, 22 << 30), sizes(20 << 30, 20 << 30, 20 << 30), sizes(1 << 30, 900 << 20, 1 << 30)
    ('20.0 GiB (19.0–22.0)', '20.0 GiB', '1.00 GiB (900 MiB–1.00)')
    """
    middle = format_size(nbytes)
    ends = [format_size(end) for end in (low, high) if end is not None]
    if len(ends) < 2 or ends == [middle, middle]:
        return middle
    unit = middle.partition(" ")[2]
    return f"{middle} ({'–'.join(end.removesuffix(f' {unit}') for end in ends)})"


def of_limit(nbytes: int, limit_bytes: int | None, low: int | None = None, high: int | None = None) -> str:
    """``20.1 GiB of 24``: the unit once, where it is the same.

    >>> of_limit(20 << 30, 24 << 30), of_limit(20 << 20, 24 << 30), of_limit(20 << 30, None)
    ('20.0 GiB of 24', '20.0 MiB of 24 GiB', '20.0 GiB')
    """
    size = sizes(nbytes, low, high)
    if limit_bytes is None:
        return size
    number, unit = format_size(limit_bytes).split()
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{size} of {number}" if format_size(nbytes).endswith(f" {unit}") else f"{size} of {number} {unit}"
