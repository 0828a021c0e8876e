"""How a table fits a width: whole columns are dropped, text is wrapped at words, and no character is lost."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

from rlmem.report.view import Column, Table

#: Blanks between two columns.
GAP = 2
#: Cells that text and names may be wrapped to before a column that has a rank is dropped for them, and before any other is.
LEAST_TEXT, LEAST_NAME = 22, 26
TIGHT_TEXT, TIGHT_NAME = 14, 18
#: A number is not parted from its unit: ``7.45 GiB``, ``12 %``, ``7.7 k/min``, ``2 min``.
_GLUED = re.compile(r"(?<=\d) (?=(?:[KMGTPE]i?B|kB|B|%|[kM]|ms|s|min|h|d)(?:[^\w]|$))")
#: Joins words that belong together; drawn as a blank.
NO_BREAK = "\u00a0"
#: A name too long for a line is parted after one of these.
_JOINTS = re.compile(r"(?<=[./_\-\[\]:,=])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A table at a width: which columns are shown, how wide, with lines for each cell, and the titles left out."""

    shown: tuple[int, ...]
    columns: tuple[Column, ...]
    widths: tuple[int, ...]
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: tuple[str, ...] = ()


def lay_out(table: Table, width: int) -> Layout:
    """The table within a width.

    The first column stays, then those that are strong, then by ``Column.rank``, and of equal ones the left one. Numbers
    are never wrapped, unless the width does not hold a single one. Text is wrapped to little before a column without a rank
    is dropped.
    """
    shown = [index for index, _ in enumerate(table.columns)]
    least = {index: _least(table, index, LEAST_NAME, LEAST_TEXT) for index in shown}
    tight = {index: _least(table, index, TIGHT_NAME, TIGHT_TEXT) for index in shown}
    ranked = [index for index in shown if index and table.columns[index].rank]
    while ranked and _together(least, shown) > width:
        ranked.remove(dropped := max(ranked, key=lambda index: _dispensable(table, index)))
        shown.remove(dropped)
    if _together(least, shown) > width:
        least = tight
    while len(shown) > 1 and _together(least, shown) > width:
        shown.remove(max(shown, key=lambda index: _dispensable(table, index)))
    widths = _widths(table, {index: least[index] for index in shown}, width)
    return Layout(
        shown=tuple(shown),
        columns=tuple(table.columns[index] for index in shown),
        widths=widths,
        heading=tuple(
            "\n".join(wrap(table.columns[index].title, size)) for index, size in zip(shown, widths, strict=True)
        ),
        rows=tuple(
            tuple("\n".join(wrap(row[index], size)) for index, size in zip(shown, widths, strict=True))
            for row in table.rows
        ),
        left_out=tuple(
            column.title for index, column in enumerate(table.columns) if index not in shown and column.title
        ),
    )


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` cells, parted at blanks; a word that is longer is parted at its joints, then anywhere."""
    lines: list[str] = []
    for line in text.split("\n"):
        lines += _wrapped(line, max(1, width))
    return lines


def _wrapped(text: str, width: int) -> Iterator[str]:
    if cell_len(text) <= width:
        yield text.replace(NO_BREAK, " ")
        return
    held = ""
    for word in _pieces(text, width):
        grown = held + word
        if held and cell_len(grown.rstrip()) > width:
            yield held.rstrip()
            grown = word.lstrip(" ")
        held = grown
    if held.strip():
        yield held.rstrip()


def _pieces(text: str, width: int) -> Iterator[str]:
    """Words with the blanks before them; what is wider than a line in pieces."""
    for word in re.findall(r" *[^ ]+| +$", _GLUED.sub(NO_BREAK, text)):
        plain = word.replace(NO_BREAK, " ")
        if cell_len(plain.strip()) <= width:
            yield plain
            continue
        for part in _JOINTS.split(plain):
            yield from [part] if cell_len(part.strip()) <= width else chop_cells(part, width)


def _cells(table: Table, index: int) -> int:
    """The widest cell of a column, its title left aside."""
    return max((cell_len(line) for row in table.rows for line in row[index].split("\n")), default=0)


def _is_number(table: Table, index: int) -> bool:
    """A column that is not wrapped; settings are set right and may be long."""
    return table.columns[index].right and _cells(table, index) <= LEAST_TEXT


def _word(text: str) -> int:
    return max((cell_len(word) for word in text.split()), default=0)


def _least(table: Table, index: int, name: int, text: int) -> int:
    """The cells that a column needs, when names and text are wrapped to so many."""
    column, cells = table.columns[index], _cells(table, index)
    if not _is_number(table, index):
        cells = min(cells, text if index else name)
    return max(1, cells, min(_word(column.title), text))


def _together(least: Mapping[int, int], shown: Sequence[int]) -> int:
    return sum(least[index] for index in shown) + GAP * (len(shown) - 1)


def _dispensable(table: Table, index: int) -> tuple[bool, bool, int, int]:
    column = table.columns[index]
    return index > 0, not column.strong, column.rank, index


def _widths(table: Table, least: Mapping[int, int], width: int) -> tuple[int, ...]:
    """Room for each column: what it needs, then names and headings on one line, then text, evenly."""
    shown, widths = list(least), dict(least)
    spare = width - _together(least, shown)
    if spare < 0:  # a single column is left, or a single number is wider than the terminal
        return tuple(max(1, width) for _ in shown[:1])
    wanted = {index: max(_cells(table, index), cell_len(table.columns[index].title)) for index in shown}
    names = [index for index in shown if index == 0 or _is_number(table, index)]
    texts = [index for index in shown if index not in names]
    for index in names:
        more = min(spare, wanted[index] - widths[index])
        widths[index], spare = widths[index] + more, spare - more
    while spare > 0 and (short := [index for index in texts if widths[index] < wanted[index]]):
        for index in short[: max(1, spare)]:
            if spare > 0:
                widths[index], spare = widths[index] + 1, spare - 1
    return tuple(widths[index] for index in shown)
