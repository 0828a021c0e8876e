"""A fixed cost and a cost per unit, from points: least squares with a 95 % interval.

Counts and bytes are whole numbers, so the normal equations are solved exactly, in fractions: nothing is lost when one axis
counts a million rows and another four environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import sqrt

from rlmem.core.points import Values

#: What is measured, by values: ``(values, bytes)``.
Sample = tuple[Values, int]

#: 97.5 % points of Student's t for 1 to 9 degrees of freedom.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
#: A line that misses a point by more than this share of it is not a good description.
MISS = 0.02
#: A slope that changes by more than this share from the first step to the last is a bend.
BEND = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisCost:
    """The cost of one more along an axis; ``margin_bytes`` is half the 95 % interval."""

    axis: str
    bytes_each: float
    margin_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFit:
    """``fixed + Σ cost × axis``, and how well that describes the points."""

    fixed_bytes: float
    fixed_margin_bytes: float | None
    terms: tuple[AxisCost, ...]
    #: Axes that stand still, and where.
    held: Values = field(default_factory=dict)
    points: int
    #: The largest miss as a share of its point.
    worst: float
    #: Cost of one more over the first step and over the last, where one axis has three values or more.
    slopes: tuple[float, float] | None = None
    #: Whether the line may be used to tell values in between.
    good: bool
    #: Whether the cost of one more changes along the axis.
    bent: bool


def student(freedom: int) -> float:
    """The 97.5 % point of Student's t.

    >>> [round(student(n), 3) for n in (1, 5, 10, 30, 1000)]
    [12.706, 2.571, 2.228, 2.042, 1.962]
    """
    if freedom <= len(_T):
        return _T[freedom - 1]
    # Cornish and Fisher's expansion about the normal; exact to four digits from ten degrees on.
    z, n = 1.959963985, float(freedom)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )


def fit_lines(samples: Sequence[Sample]) -> tuple[LineFit, ...]:
    """Lines through samples: one over all counted axes if the samples can tell them apart, else one per axis.

    Axes of words (``env=Hopper-v5,Ant-v5``) split the samples; each part has its own line. With nothing that varies
    there is none.
    """
    return tuple(line for held, part in _split(samples) for line in _lines(held, part))


def _split(samples: Sequence[Sample]) -> list[tuple[dict[str, int | str], list[Sample]]]:
    parts: dict[tuple[tuple[str, str], ...], list[Sample]] = {}
    for values, nbytes in samples:
        words = tuple((name, value) for name, value in values.items() if isinstance(value, str))
        parts.setdefault(words, []).append((values, nbytes))
    return [(dict(words), part) for words, part in parts.items()]


def _lines(held: dict[str, int | str], samples: Sequence[Sample]) -> list[LineFit]:
    names = [name for name, value in samples[0][0].items() if isinstance(value, int)]
    still = {name: samples[0][0][name] for name in names if len({values[name] for values, _ in samples}) == 1}
    moving = [name for name in names if name not in still]
    if not moving:
        return []
    whole = _least_squares(samples, moving, {**held, **still})
    if whole is not None:
        return [whole]
    found = []
    for axis in moving:
        others = {name: samples[0][0][name] for name in names if name != axis}
        along = [s for s in samples if all(s[0][name] == value for name, value in others.items())]
        line = _least_squares(along, [axis], {**held, **others})
        if line is not None:
            found.append(line)
    return found


def _least_squares(samples: Sequence[Sample], axes: Sequence[str], held: Values) -> LineFit | None:
    """The line along some axes; ``None`` when the samples cannot tell the axes apart."""
    rows = [[Fraction(1), *(Fraction(values[axis]) for axis in axes)] for values, _ in samples]
    measured = [Fraction(nbytes) for _, nbytes in samples]
    width = len(rows[0])
    square = [[sum((row[i] * row[j] for row in rows), Fraction()) for j in range(width)] for i in range(width)]
    inverse = _invert(square)
    if inverse is None:
        return None
    sums = [sum((row[i] * y for row, y in zip(rows, measured, strict=True)), Fraction()) for i in range(width)]
    costs = [sum((a * b for a, b in zip(line, sums, strict=True)), Fraction()) for line in inverse]
    misses = [
        y - sum((a * b for a, b in zip(row, costs, strict=True)), Fraction())
        for row, y in zip(rows, measured, strict=True)
    ]
    freedom = len(rows) - width
    margins: list[float | None] = [None] * width
    if freedom > 0:
        variance = sum((miss * miss for miss in misses), Fraction()) / freedom
        margins = [student(freedom) * sqrt(variance * inverse[i][i]) for i in range(width)]
    terms = tuple(
        AxisCost(axis=axis, bytes_each=float(cost), margin_bytes=margin)
        for axis, cost, margin in zip(axes, costs[1:], margins[1:], strict=True)
    )
    worst = max(float(abs(miss) / y) if y else 0.0 for miss, y in zip(misses, measured, strict=True))
    slopes = _slopes(samples, axes[0]) if len(axes) == 1 else None
    return LineFit(
        fixed_bytes=float(costs[0]),
        fixed_margin_bytes=margins[0],
        terms=terms,
        held=held,
        points=len(rows),
        worst=worst,
        slopes=slopes,
        good=worst <= MISS,
        bent=worst > MISS and slopes is not None and _bends(*slopes),
    )


def _bends(first: float, last: float) -> bool:
    return abs(last - first) > BEND * max(abs(first), abs(last))


def _slopes(samples: Sequence[Sample], axis: str) -> tuple[float, float] | None:
    """The rise per unit over the first step and over the last, repeats taken together."""
    found: dict[int, list[int]] = {}
    for values, nbytes in samples:
        found.setdefault(int(values[axis]), []).append(nbytes)
    steps = [(at, sum(sizes) / len(sizes)) for at, sizes in sorted(found.items())]
    if len(steps) < 3:
        return None
    rises = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(steps)]
    return rises[0], rises[-1]


def _invert(square: Sequence[Sequence[Fraction]]) -> list[list[Fraction]] | None:
    """The inverse, by Gauss and Jordan; ``None`` when there is none."""
    size = len(square)
    work = [[*row, *(Fraction(i == j) for j in range(size))] for i, row in enumerate(square)]
    for column in range(size):
        pivot = next((row for row in range(column, size) if work[row][column]), None)
        if pivot is None:
            return None
        work[column], work[pivot] = work[pivot], work[column]
        work[column] = [value / work[column][column] for value in work[column]]
        for row in range(size):
            if row != column and work[row][column]:
                factor = work[row][column]
                work[row] = [a - factor * b for a, b in zip(work[row], work[column], strict=True)]
    return [row[size:] for row in work]
