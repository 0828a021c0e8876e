"""Bytes, counts and times: text in, integers out, and back.

``GB`` is 10⁹ bytes and ``GiB`` is 2³⁰; both parse. rlmem prints GiB, or GB where the user asked in GB.

>>> parse_size("30GB"), parse_size("24 GiB"), parse_count("400k")
(30000000000, 25769803776, 400000)
>>> format_size(30_000_000_000)
'27.9 GiB'
>>> with answering_in("30GB"):
...     format_size(30_000_000_000)
'30.0 GB'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from decimal import Decimal

from rlmem.errors import UsageError

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40

#: In seconds.
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 31_557_600
_TIME_UNITS = {"": 1, "s": 1, "sec": 1, "m": MINUTE, "min": MINUTE, "h": HOUR, "d": DAY}
_TIME_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)", re.ASCII)

#: Above this a size is a typing mistake, not a machine (one exbibyte).
ABSURD_BYTES = 1 << 60
#: Above this a count is a typing mistake; the largest replay buffers in use hold about 10⁹ rows.
ABSURD_COUNT = 10**13

_SIZE_UNITS = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "kib": KIB,
    "ki": KIB,
    "m": 10**6,
    "mb": 10**6,
    "mib": MIB,
    "mi": MIB,
    "g": 10**9,
    "gb": 10**9,
    "gib": GIB,
    "gi": GIB,
    "t": 10**12,
    "tb": 10**12,
    "tib": TIB,
    "ti": TIB,
    "p": 10**15,
    "pb": 10**15,
    "pib": 1 << 50,
    "pi": 1 << 50,
}
_COUNT_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "g": 10**9}
#: A comma only groups thousands: "1,5GB" is a decimal comma and would read as 15.
_NUMBER = re.compile(
    r"\s*([+-]?(?=\.?\d)(?:\d{1,3}(?:,\d{3})+|\d[\d_]*)?(?:\.\d+)?(?:[eE][+-]?\d{1,4})?)\s*([A-Za-z]*)\s*", re.ASCII
)
#: Longer text is not a number anybody meant, and would fill the screen as an error message.
_LONGEST = 60


def _split(text: str, kind: str, example: str) -> tuple[Decimal, str]:
    match = _NUMBER.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        raise UsageError(f"{shown!r} is not a {kind}; write it like {example}")
    return Decimal(match[1].replace("_", "").replace(",", "")), match[2].lower()


def parse_size(text: str | int | float, *, minimum: int = 1) -> int:
    """Bytes from ``30GB``, ``24GiB``, ``512 MiB`` or a plain number of bytes."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UsageError(f"{text!r} is not a size; write it like 30GB or 24GiB")
    number, unit = _split(str(text), "size", "30GB or 24GiB")
    if unit not in _SIZE_UNITS:
        raise UsageError(f"{str(text)!r}: unknown unit {unit!r}; use B, kB, MB, GB, TB or KiB, MiB, GiB, TiB")
    exact = number * _SIZE_UNITS[unit]
    if exact > ABSURD_BYTES:
        raise UsageError(f"{str(text)!r} is absurdly large (over 1 EiB); check the unit")
    nbytes = round(exact)
    if nbytes < minimum:
        raise UsageError(f"{str(text)!r} is not a size: it must be at least {minimum} B")
    return nbytes


def parse_count(text: str | int | float) -> int:
    """A whole number from ``400k``, ``1M``, ``20_000``, ``1e6`` or an int; fractions of one are refused."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UsageError(f"{text!r} is not a whole number")
    number, unit = _split(str(text), "whole number", "400k, 1M or 20_000")
    if unit not in _COUNT_UNITS:
        raise UsageError(f"{str(text)!r}: unknown suffix {unit!r}; use k, M or B (thousand, million, billion)")
    value = number * _COUNT_UNITS[unit]
    if abs(value) > ABSURD_COUNT:
        raise UsageError(f"{str(text)!r} is absurdly large (over 10¹³)")
    if value != int(value):
        raise UsageError(f"{str(text)!r} is not a whole number")
    return int(value)


_BINARY = (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB))
_DECIMAL = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
#: Digits behind the point at most, to tell the ends of a range apart.
_RANGE_DIGITS = 3
#: The units that sizes are printed in. A command sets them from the sizes it is given; nobody else does.
_SHOWN: ContextVar[tuple[tuple[str, int], ...]] = ContextVar("units", default=_BINARY)


@contextmanager
def answering_in(size: str | None) -> Iterator[None]:
    """Print sizes in the units of a size as it was typed: decimal ones after ``64GB``, else binary ones."""
    typed = _NUMBER.fullmatch(size or "")
    decimal = typed is not None and typed[2].lower() in ("kb", "mb", "gb", "tb", "pb", "k", "m", "g", "t", "p")
    token = _SHOWN.set(_DECIMAL if decimal else _BINARY)
    try:
        yield
    finally:
        _SHOWN.reset(token)


def shown_units() -> tuple[tuple[str, int], ...]:
    """The units that sizes are printed in now, the largest first."""
    return _SHOWN.get()


def format_size(nbytes: int | float, *, unit: str | None = None) -> str:
    """Text with three significant figures, ``21.4 GiB``; ``unit`` pins the unit for a column."""
    sign, size = ("-" if nbytes < 0 else ""), abs(nbytes)
    for name, scale in _SHOWN.get():
        if unit == name or (unit is None and size >= scale * 0.9995):
            value = size / scale
            digits = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
            return f"{sign}{value:,.{digits}f} {name}"
    return f"{sign}{size:,.0f} B"


def format_range(low: int | float, high: int | float, *, beside: int | float) -> str:
    """The bare numbers of a range, in the unit of the size it stands beside, with as many digits as tell its ends apart.

    >>> format_range(20.9 * GIB, 22.3 * GIB, beside=21.4 * GIB), format_range(52.98 * GIB, 53.03 * GIB, beside=53 * GIB)
    ('20.9–22.3', '52.98–53.03')
    """
    unit = format_size(beside).rsplit(" ", 1)[1]
    ends = [format_size(end, unit=unit).rsplit(" ", 1)[0] for end in (low, high)]
    scale = dict(_SHOWN.get()).get(unit, 1)
    for digits in range(1, _RANGE_DIGITS + 1):
        if ends[0] != ends[1] or low == high:
            break
        ends = [f"{end / scale:,.{digits}f}" for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]}–{ends[1]}"


def format_count(value: int) -> str:
    """``400,000`` as people write it in tables."""
    return f"{value:,}"


def format_duration(seconds: float) -> str:
    """A time as people say it.

    >>> format_duration(11_400), format_duration(7_500), format_duration(45), format_duration(900), format_duration(100_000), format_duration(9e9)
    ('3 h 10', '2 h 05', '45 s', '15 min', '1 d 4 h', 'over a year')
    """
    if seconds < 90:
        return f"{max(0, round(seconds))} s"
    minutes = round(seconds / MINUTE)
    if minutes < 90:
        return f"{minutes} min"
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02}"
    hours = round(seconds / HOUR)
    return f"{hours // 24} d {hours % 24} h" if seconds < YEAR else "over a year"


def parse_duration(text: str) -> float:
    """Seconds from ``90``, ``45s``, ``10min``, ``2h`` or ``1h30``.

    >>> parse_duration("90"), parse_duration("10 min"), parse_duration("1h30"), parse_duration("2 d 4 h")
    (90.0, 600.0, 5400.0, 187200.0)
    """
    seconds, place, before = 0.0, 0, ""
    while place < len(text.rstrip()) and (match := _TIME_PART.match(text, place)):
        unit = match[2] or {"d": "h", "h": "min", "min": "s", "m": "s"}.get(before, "")
        if unit not in _TIME_UNITS:
            break
        seconds, place, before = seconds + float(match[1]) * _TIME_UNITS[unit], match.end(), unit
    if not text.strip() or place < len(text.rstrip()) or not 0 < seconds < YEAR:
        raise UsageError(f"{text[:60]!r} is not a time; write it like 90s, 10min, 2h or 1h30")
    return seconds
