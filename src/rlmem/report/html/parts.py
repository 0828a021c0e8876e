"""Parts that every page is made of: sections, tables, lists, facts, things that unfold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from rlmem.report.html.markup import Attributes, Child, add, element
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_size

#: The shape a verdict has beside its colour.
SIGNS = {"good": "✓", "warn": "!", "bad": "✕", "plain": "·"}
_CODE = re.compile(r"`([^`]+)`")


def section(title: str, *children: Child, name: str = "", note: str = "") -> Element:
    """A part of the page with a heading that a link can lead to."""
    name = name or re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return element(
        "section",
        {"id": name, "aria-labelledby": f"{name}-title"},
        element("h2", {"id": f"{name}-title"}, title),
        element("p", {"class": "note"}, note) if note else None,
        children,
    )


def said(words: str) -> list[Child]:
    """Text whose `quoted words` are code."""
    parts = _CODE.split(words)
    return [element("code", {}, part) if number % 2 else part for number, part in enumerate(parts)]


def verdict(lines: Iterable[tuple[str, str]]) -> Element:
    """Sentences with their tones, the first one large."""
    return element(
        "div",
        {"class": "verdict", "role": "status"},
        (
            element("p", {"class": f"tone {tone}"}, element("i", {"aria-hidden": "true"}, SIGNS[tone]), said(words))
            for words, tone in lines
        ),
    )


def table(found: Table, *, caption: str = "", label: str = "", cards: bool = False) -> Element:
    """A table that scrolls by itself when it is wider than the page; a label names it to those who do not see it."""
    caption = caption or found.title
    body_rows = found.rows[: len(found.rows) - found.footers] if found.footers else found.rows
    made = table_of(found.columns, body_rows, label=label or caption or "table", caption=caption, cards=cards)
    if found.footers:
        footers = found.rows[len(body_rows) :]
        made[0].append(element("tfoot", {}, (_row(found.columns, row, cards) for row in footers)))
    add(made, [element("p", {"class": "note"}, line) for line in found.note.splitlines()])
    return made


def table_of(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Child]],
    *,
    label: str,
    caption: str = "",
    cards: bool = False,
) -> Element:
    """A table whose cells may be elements.

    With ``cards`` its rows are cards on a phone: the first cell is the heading, the others stand beneath it.
    """
    head = [element("th", {"scope": "col", "class": _looks(each.right, each.strong)}, each.title) for each in columns]
    return element(
        "div",
        {"class": "scroll", "tabindex": 0, "role": "group", "aria-label": label},
        element(
            "table",
            {"class": "cards" if cards else None},
            element("caption", {}, caption) if caption else None,
            element("thead", {}, element("tr", {}, head)) if any(each.title for each in columns) else None,
            element("tbody", {}, (_row(columns, row, cards) for row in rows)),
        ),
    )


def _row(columns: Sequence[Column], row: Sequence[Child], cards: bool) -> Element:
    return element("tr", {}, (_cell(column, child, cards) for column, child in zip(columns, row, strict=True)))


def _cell(column: Column, child: Child, cards: bool) -> Element:
    """A cell; it names itself where the row is a card, and is not drawn there when it is empty."""
    title = column.title if cards and child not in (None, "") else None
    return element("td", {"class": _looks(column.right, column.strong), "data-title": title}, child)


def _looks(right: bool, strong: bool) -> str | None:
    return " ".join(word for word, is_so in (("number", right), ("strong", strong)) if is_so) or None


def items(found: Iterable[Item]) -> Element:
    """Findings as a list."""
    return element("ul", {"class": "items"}, (item(each) for each in found))


def item(found: Item) -> Element:
    """One of a list."""
    return element(
        "li",
        {"class": f"tone {found.tone}"},
        element("b", {}, found.lead),
        " ",
        said(found.text),
        element("span", {"class": "saves"}, found.saves) if found.saves else None,
        [element("p", {}, said(line)) for line in found.more],
    )


def facts(rows: Iterable[tuple[str, Child]]) -> Element:
    """Names and values."""
    pairs = [
        (element("dt", {}, name), element("dd", {}, value)) for name, value in rows if value is not None and value != ""
    ]
    return element("dl", {"class": "facts"}, pairs)


def unfold(summary: Child, *children: Child, look: str = "", is_open: bool = False) -> Element:
    """Something that shows more on a click or a key."""
    attributes: Attributes = {"class": look or None, "open": is_open}
    return element("details", attributes, element("summary", {}, summary), children)


def bar_line(name: str, nbytes: int, begin: int, total: int, colour: str) -> list[Child]:
    """A name, a bar that begins where the one above it ends, and a size."""
    style = f"left:{100 * begin / total:.2f}%;width:{100 * nbytes / total:.2f}%"
    return [
        element("span", {"class": "name"}, name),
        element("span", {"class": "rail", "aria-hidden": "true"}, element("i", {"class": colour, "style": style})),
        element("span", {"class": "size"}, format_size(nbytes)),
    ]


def code(words: str, *, kind: str = "", label: str = "") -> Element:
    """Text to copy; lines of a diff have their colours and keep their signs."""
    lines: Child = words
    if kind == "diff":
        lines = [element("span", {"class": _sign(line)}, f"{line}\n") for line in words.splitlines()]
    attributes: Attributes = {
        "class": f"code {kind}".strip(),
        "tabindex": 0,
        "role": "group",
        "aria-label": label or kind or "text",
    }
    return element("pre", attributes, element("code", {}, lines))


def _sign(line: str) -> str | None:
    if line.startswith(("+++", "---", "@@")):
        return "place"
    return {"+": "added", "-": "removed"}.get(line[:1])


def of_section(found: Section, *, name: str = "", cards: bool = False) -> Element:
    """A section of a view, as text and tables."""
    return section(
        found.title,
        [element("p", {}, said(line)) for line in found.lines],
        [table(each, cards=cards) for each in found.tables],
        items(found.items) if found.items else None,
        name=name,
    )


def of_view(view: View, *, cards: bool = False) -> list[Element]:
    """A whole view: what a terminal shows, on a page."""
    return [
        verdict(view.verdict) if view.verdict else element("div", {}),
        *(of_section(each, cards=cards) for each in view.sections),
        element("footer", {"class": "notes"}, (element("p", {}, said(note)) for note in view.notes)),
    ]
