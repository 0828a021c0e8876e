"""Small plots in text: marks on a grid of characters with labelled axes, and a line of bars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

#: ``(x, y, mark)``; a later mark covers an earlier one.
Mark = tuple[float, float, str]
BARS, PLAIN_BARS = "▁▂▃▄▅▆▇█", "_.-=+*%#"


def plot(
    marks: Sequence[Mark],
    line: Callable[[float], float] | None,
    *,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    width: int = 60,
    height: int = 12,
) -> tuple[str, ...]:
    """Marks, and a line under them if there is one; y starts at zero, unless all would then crowd at the top."""
    left, right = min(x for x, _, _ in marks), max(x for x, _, _ in marks)
    if left == right:
        return ()
    xs = [left + (right - left) * column / (width - 1) for column in range(width)]
    heights = [*(y for _, y, _ in marks), *([line(left), line(right)] if line else [])]
    top, least = max(1.0, *heights), min(heights)
    # What hardly changes looks as if it did not.
    bottom = 0.0 if least < top / 2 else min(least - (top - least or top) / 5, 0.95 * top)
    grid = [[" "] * width for _ in range(height)]

    def put(column: int, y: float, mark: str) -> None:
        row = height - 1 - round(max(0.0, y - bottom) / (top - bottom) * (height - 1))
        grid[row][column] = mark

    for column, x in enumerate(xs if line else ()):
        put(column, line(x) if line else 0.0, "·")
    for x, y, mark in marks:
        put(round((x - left) / (right - left) * (width - 1)), y, mark)
    middle = height // 2
    labels = {0: top, middle: bottom + (top - bottom) * (height - 1 - middle) / (height - 1), height - 1: bottom}
    texts = {row: y_text(y) for row, y in labels.items()}
    margin = max(len(text) for text in texts.values())
    rows = [f"{texts.get(index, ''):>{margin}} ┤{''.join(cells)}".rstrip() for index, cells in enumerate(grid)]
    first, last = x_text(left), x_text(right)
    return (*rows, f"{'':{margin}} └{'─' * width}", f"{'':{margin}}  {first}{last:>{width - len(first)}}")


def sparkline(values: Sequence[float], *, width: int = 60, plain: bool = False) -> str:
    """One character a value, or a group of them where there are more than ``width``.

    >>> sparkline([0, 1, 2, 3])
    '▁▃▆█'
    >>> sparkline([2, 2]), sparkline([])
    ('▄▄', '')
    """
    if not values:
        return ""
    bars = PLAIN_BARS if plain else BARS
    count = min(width, len(values))
    edges = [len(values) * index // count for index in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in pairwise(edges)]
    low, high = min(means), max(means)
    if high == low:
        return bars[3] * count
    return "".join(bars[round((mean - low) / (high - low) * (len(bars) - 1))] for mean in means)
