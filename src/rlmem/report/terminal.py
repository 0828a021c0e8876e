"""Draws a view in a terminal; plain text when piped or when ``NO_COLOR`` is set."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from rlmem.report.view import Item, Section, Table, View

_STYLES = {"good": "green", "warn": "yellow", "bad": "red", "plain": "cyan"}
#: Width for pipes and files, where there is no terminal to ask; COLUMNS still wins.
_PIPE_WIDTH = 140


def make_console(stream: TextIO) -> Console:
    """A console for a stream that respects pipes, ``NO_COLOR`` and ``COLUMNS``."""
    interactive = stream.isatty()
    width = None if interactive or os.environ.get("COLUMNS") else _PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=False)


def draw(view: View, console: Console) -> None:
    """The whole view."""
    for text, tone in view.verdict:
        console.print(Text(text, style=f"bold {_STYLES[tone]}"))
    console.print(Text(view.title, style="dim" if view.verdict else "bold"))
    for section in view.sections:
        draw_section(section, console)
    if view.notes:
        console.print()
        for note in view.notes:
            console.print(Text(note, style="dim"))


def draw_section(section: Section, console: Console) -> None:
    """A heading and what is under it."""
    console.print()
    console.print(Text(section.title, style="bold underline"))
    for line in section.lines:
        console.print(Padding(Text(line), (0, 0, 0, 2)))
    for line in section.figure:
        console.print(Text(f"  {line}"), no_wrap=True, crop=True)
    for table in section.tables:
        _draw_table(table, console)
    for item in section.items:
        _draw_item(item, console)


def _draw_table(table: Table, console: Console) -> None:
    drawn = RichTable(
        box=None,
        pad_edge=False,
        title=table.title or None,
        title_justify="left",
        title_style="bold",
        header_style="dim",
    )
    for index, column in enumerate(table.columns):
        drawn.add_column(
            escape(column.title),
            justify="right" if column.right else "left",
            no_wrap=column.right or index == 0,
            style="bold" if column.strong else None,
            overflow="fold",
        )
    for index, row in enumerate(table.rows):
        footer = index >= len(table.rows) - table.footers
        drawn.add_row(
            *(Text(cell) for cell in row), style="dim" if footer and row[0] == "range" else "bold" if footer else None
        )
    console.print(Padding(drawn, (0, 0, 0, 2)))
    for line in table.note.splitlines():
        console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2)))


def _draw_item(item: Item, console: Console) -> None:
    line = Text.assemble((item.lead, f"bold {_STYLES[item.tone]}"), "  ", item.text)
    if item.saves:
        line.append(f"  [{item.saves}]", style="bold")
    console.print(Padding(line, (0, 0, 0, 2)))
    for more in item.more:
        console.print(Padding(Text(f"→ {more}", style="dim"), (0, 0, 0, 10)))
