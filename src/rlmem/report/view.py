"""The view-model: a document arranged into sentences and tables, once, for every renderer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's heading; numbers are set right; ``strong`` marks the peak phase.

    Where a terminal is too narrow, the column of the highest ``rank`` is left out first, of equal ones the right one.
    """

    title: str
    right: bool = True
    strong: bool = False
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table ready to draw; the last ``footers`` rows are sums."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    footers: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A line of a list: a lead word, the text, what it saves, and what to do."""

    lead: str
    text: str
    tone: str = "plain"
    saves: str = ""
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with prose, a figure drawn in text, tables and items under it."""

    title: str
    lines: tuple[str, ...] = ()
    figure: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Appendix:
    """A text to copy, beneath a report: it is never wrapped or cut."""

    title: str
    text: str
    #: As Markdown names it: ``diff``, ``yaml``, ``python``.
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A whole report."""

    title: str
    verdict: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    appendix: Appendix | None = None


def setting_text(value: Any) -> str:
    """A setting as a person writes it; spaces by their shape; one that is not set is empty.

    >>> setting_text({"type": "dict", "spaces": {"image": {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}}})
    'image: 84×84×3 uint8'
    >>> setting_text([256, 256]), setting_text(400_000), setting_text(True), setting_text(None), setting_text([])
    ('256, 256', '400,000', 'yes', '', 'none')
    """
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case {"type": "box", "shape": [*shape], "dtype": dtype}:
            return f"{'×'.join(map(str, shape)) or '1'} {dtype}"
        case {"type": "dict", "spaces": spaces}:
            return setting_text(spaces)
        case {"type": kind, **rest}:
            return f"{kind} {', '.join(map(setting_text, rest.values()))}".strip()
        case Mapping():
            return "; ".join(f"{name}: {setting_text(part) or 'none'}" for name, part in value.items())
        case list() | tuple():
            return ", ".join(setting_text(part) or "none" for part in value) or "none"
    return str(value)
