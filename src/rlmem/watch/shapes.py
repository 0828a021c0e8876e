"""What a total did that does not go on growing, or not for certain: flat, one rise, back and forth. Pure; no files, no clock.

``rlmem.watch.growth`` says whether growth is proven. What is not proven may still be there, and "nothing grows" is only
said where nothing did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from rlmem.units import MIB
from rlmem.watch.growth import COARSE, blocks

#: Under this, and under this share of the largest, a change is not worth a word.
SMALL_BYTES, SMALL_SHARE = 4 * MIB, 0.01
#: A total that fell by this share of its range comes and goes.
FALLS = 0.5
#: A rise has ended when this share of it was there for this share of the time.
THERE, ENDED = 0.95, 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``flat``; ``wave``: comes and goes; ``rose``: and has been flat since; ``rises``: still, as far as can be seen."""

    name: str
    low_bytes: float
    high_bytes: float
    gained_bytes: float
    seconds: float
    #: What it gained a second in its first half, and in its last quarter.
    early_per_s: float = 0.0
    late_per_s: float = 0.0
    #: Of a rise that has ended: for how long it has been flat since.
    flat_s: float = 0.0


def read_shape(times: Sequence[float], values: Sequence[float]) -> Shape:
    """The shape of a series of two values at least; spikes shorter than a sixteenth of it are left out."""
    at, sizes = blocks(times, values, COARSE)
    low, high, gained = min(sizes), max(sizes), sizes[-1] - sizes[0]
    seconds = times[-1] - times[0]
    name, flat = "rises", 0.0
    there = next((time for time, size in zip(at, sizes, strict=True) if size >= low + THERE * (high - low)), at[-1])
    if high - low <= max(SMALL_BYTES, SMALL_SHARE * high):
        name = "flat"
    elif _fall(sizes) >= FALLS * (high - low):
        name = "wave"
    elif times[-1] - there >= ENDED * seconds:
        name, flat = "rose", times[-1] - there
    half, quarter = len(at) // 2, min(len(at) - 2, len(at) - 1 - len(at) // 4)
    return Shape(
        name=name,
        low_bytes=low,
        high_bytes=high,
        gained_bytes=gained,
        seconds=seconds,
        early_per_s=(sizes[half] - sizes[0]) / (at[half] - at[0]),
        late_per_s=(sizes[-1] - sizes[quarter]) / (at[-1] - at[quarter]),
        flat_s=flat,
    )


def _fall(sizes: Sequence[float]) -> float:
    """The deepest fall from a height reached before."""
    return max(height - size for height, size in zip(accumulate(sizes, max), sizes, strict=True))
