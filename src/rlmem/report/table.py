"""Tables made of columns that say their heading and the text of their cells in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from rlmem.report.view import Column, Table

RowT = TypeVar("RowT")
#: A heading, and the text that a row has beneath it.
Cell: TypeAlias = tuple[Column, Callable[[RowT], str]]


def make_table(
    cells: Iterable[Cell[RowT]], rows: Iterable[RowT], *, total: tuple[str, ...] = (), note: str = ""
) -> Table:
    """Return a table of rows.

    Args:
        cells: its columns, from the left.
        rows: what each row is about.
        total: the texts of a last row that sums up.
        note: what stands beneath.
    """
    columns, texts = zip(*cells, strict=True)
    body = [tuple(text(row) for text in texts) for row in rows]
    return Table(
        title="", columns=columns, rows=tuple([*body, total] if total else body), footers=1 if total else 0, note=note
    )
