"""Looks at a view as terminals of several widths show it."""

from __future__ import annotations

import io
import re

from rich.cells import cell_len
from rich.console import Console

from rlmem.report.layout import lay_out
from rlmem.report.terminal import draw
from rlmem.report.view import Table, View

WIDTHS = (80, 100, 160)
_SIZE = re.compile(r"\d[\d.,]* (?:[KMGT]iB|B|%)(?!\w)")


def drawn(view: View, width: int) -> str:
    """The view as text."""
    buffer = io.StringIO()
    draw(view, Console(file=buffer, width=width, highlight=False, soft_wrap=False))
    return buffer.getvalue()


def check_view(view: View) -> None:
    """Nothing is wider than the terminal, and no column that is shown has lost a character or parted a number."""
    for width in WIDTHS:
        text = drawn(view, width)
        wide = [line for line in text.splitlines() if cell_len(line.rstrip()) > width]
        assert not wide, f"wider than {width}: {wide[0]!r}"
        for section in view.sections:
            for table in section.tables:
                check_table(table, width, text)


def check_table(table: Table, width: int, text: str) -> None:
    laid = lay_out(table, width - 2)
    assert laid.columns[0] == table.columns[0]
    widths = dict(zip(laid.shown, laid.widths, strict=True))
    for row, cells in zip(table.rows, laid.rows, strict=True):
        for index, cell in zip(laid.shown, cells, strict=True):
            assert _letters(cell) == _letters(row[index])
            assert all(piece in text for piece in cell.split("\n"))
            if all(cell_len(size) <= widths[index] for size in _SIZE.findall(row[index])):
                assert _SIZE.findall(row[index]) == [
                    size for piece in cell.split("\n") for size in _SIZE.findall(piece)
                ]
    if laid.left_out:
        assert f"leftoutatthiswidth:{_letters(','.join(laid.left_out))}" in _letters(text)


def _letters(text: str) -> str:
    return "".join(text.split())
