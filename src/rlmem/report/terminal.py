"""Draws a view in a terminal; plain text when piped or when ``NO_COLOR`` is set."""

from __future__ import annotations

import os
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, JustifyMethod
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from rlmem.report.layout import GAP, NO_BREAK, Layout, lay_out, wrap
from rlmem.report.view import Item, Section, Table, View

_STYLES = {"good": "green", "warn": "yellow", "bad": "red", "plain": "cyan"}
#: Width for pipes and files, where there is no terminal to ask; COLUMNS still wins.
_PIPE_WIDTH = 140
#: Where a section begins, and what is under an item: behind a rule's code.
_INDENT, _UNDER = 2, 10


def make_console(stream: TextIO) -> Console:
    """A console for a stream that respects pipes, ``NO_COLOR`` and ``COLUMNS``."""
    interactive = stream.isatty()
    width = None if interactive or os.environ.get("COLUMNS") else _PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def draw(view: View, console: Console) -> None:
    """The whole view."""
    for text, tone in view.verdict:
        _draw_text(text, console, indent=0, style=f"bold {_STYLES[tone]}")
    _draw_text(view.title, console, indent=0, style="dim" if view.verdict else "bold")
    for section in view.sections:
        draw_section(section, console)
    if view.notes:
        console.print()
        for note in view.notes:
            _draw_text(note, console, indent=0, style="dim")


def draw_section(section: Section, console: Console) -> None:
    """A heading and what is under it."""
    console.print()
    console.print(Text(section.title, style="bold underline"))
    for line in section.lines:
        _draw_text(line, console)
    if max(map(cell_len, section.figure), default=0) + _INDENT > console.width:
        _draw_text("left out at this width: the picture", console, style="dim")
    else:
        for line in section.figure:
            console.print(Text(f"  {line}"), no_wrap=True)
    for table in section.tables:
        _draw_table(table, console)
    for item in section.items:
        _draw_item(item, console)


def _draw_table(table: Table, console: Console) -> None:
    laid = lay_out(table, console.width - _INDENT)
    console.print(Padding(drawn_table(table, laid), (0, 0, 0, _INDENT)))
    if laid.left_out:
        _draw_text(f"left out at this width: {', '.join(laid.left_out)}", console, style="dim")
    for line in table.note.splitlines():
        _draw_text(line, console, style="dim")


def drawn_table(table: Table, laid: Layout) -> RichTable:
    """A table laid out for a width."""
    drawn = RichTable(
        box=None,
        pad_edge=False,
        padding=(0, GAP, 0, 0),
        title=table.title or None,
        title_justify="left",
        title_style="bold",
        show_header=any(laid.heading),
        header_style="dim",
    )
    for column, width, heading in zip(laid.columns, laid.widths, laid.heading, strict=True):
        justify: JustifyMethod = "right" if column.right else "left"
        drawn.add_column(
            Text(heading), justify=justify, vertical="top", width=width, style="bold" if column.strong else None
        )
    for index, row in enumerate(laid.rows):
        footer = index >= len(laid.rows) - table.footers
        drawn.add_row(
            *(Text(cell) for cell in row), style="dim" if footer and row[0] == "range" else "bold" if footer else None
        )
    return drawn


def _draw_text(text: str, console: Console, *, indent: int = _INDENT, style: str = "") -> None:
    """Text in whole words under an indent."""
    for line in wrap(text, console.width - indent):
        console.print(Text(" " * indent + line, style=style), no_wrap=True, crop=False)


def _draw_item(item: Item, console: Console) -> None:
    saves = f"  [{item.saves.replace(' ', NO_BREAK)}]" if item.saves else ""
    first, *others = wrap(f"{item.lead}  {item.text}{saves}", console.width - _INDENT)
    drawn = Text(" " * _INDENT + first)
    drawn.stylize(f"bold {_STYLES[item.tone]}", _INDENT, _INDENT + len(item.lead))
    if others:  # the rest stands under the text
        for line in wrap(" ".join(others).replace(f"[{item.saves}]", saves.strip()), console.width - _UNDER):
            drawn.append("\n" + " " * _UNDER + line)
    if item.saves:
        drawn.highlight_words([f"[{item.saves}]"], style="bold")
    console.print(drawn, no_wrap=True, crop=False)
    for more in item.more:
        _draw_text(f"→ {more}", console, indent=_UNDER, style="dim")
