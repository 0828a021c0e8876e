"""Writes a view as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlmem.report.view import Item, Section, Table, View

_MARKS = {"good": "✅", "warn": "⚠️", "bad": "❌", "plain": "ℹ️"}


def render(view: View) -> str:
    """The whole view."""
    lines = [f"# {_plain(view.title)}", ""]
    for text, tone in view.verdict:
        lines += [f"**{_MARKS[tone]} {text}**", ""]
    for section in view.sections:
        lines += _section(section)
    lines += [f"<sub>{note}</sub>  " for note in view.notes]
    return "\n".join(lines).rstrip() + "\n"


def _plain(text: str) -> str:
    """Text of the user's as text, not as Markdown or HTML."""
    return re.sub(r"([<\[\]!])", r"\\\1", text)


def _section(section: Section) -> Iterator[str]:
    yield from (f"## {section.title}", "")
    for line in section.lines:
        yield from (line, "")
    if section.figure:
        yield from ("```text", *section.figure, "```", "")
    for table in section.tables:
        yield from table_lines(table)
    yield from (_item(item) for item in section.items)
    if section.items:
        yield ""


def table_lines(table: Table) -> Iterator[str]:
    """A table with its title and note."""
    if table.title:
        yield from (f"**{table.title}**", "")
    yield "| " + " | ".join(_cell(column.title) for column in table.columns) + " |"
    yield "|" + "|".join(" ---: " if column.right else " --- " for column in table.columns) + "|"
    for index, row in enumerate(table.rows):
        bold = index >= len(table.rows) - table.footers
        yield "| " + " | ".join(f"**{_cell(c)}**" if bold and c else _cell(c) for c in row) + " |"
    yield ""
    for line in table.note.splitlines():
        yield from (line, "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _item(item: Item) -> str:
    saves = f" **{item.saves}.**" if item.saves else ""
    more = "".join(f" {text}." for text in item.more)
    return f"- {_MARKS[item.tone]} `{item.lead}` {item.text}.{saves}{more}"
