"""The rules, as views: the list of them, and one manual page."""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.documents.rules import RulePart, RulesDocument
from rlmem.report.rule_pages import chunks
from rlmem.report.view import Column, Section, Table, View


def rules_view(document: RulesDocument) -> View:
    """Arrange the list of rules; of a single one its manual page."""
    if len(document.rules) == 1:
        return _page(document.rules[0])
    columns = (
        Column(title="code", right=False),
        Column(title="name", right=False),
        Column(title="severity", right=False, rank=1),
        Column(title="family", right=False, rank=3),
        Column(title="looks at", right=False, rank=2),
        Column(title="what it finds", right=False),
    )
    rows = tuple(
        (rule.code, rule.name, rule.severity, rule.family, ", ".join(rule.subjects), rule.page.splitlines()[0])
        for rule in document.rules
    )
    return View(
        title="rlmem rules",
        verdict=(),
        sections=(Section(title="Rules", tables=(Table(title="", columns=columns, rows=rows),)),),
        notes=("'rlmem rule CODE' prints a manual page.",),
    )


def _page(rule: RulePart) -> View:
    first, *rest = _lines(rule.page)
    about = f"{rule.severity}, {rule.family}; looks at {', '.join(rule.subjects)}"
    section = Section(title=first, lines=tuple(rest))
    return View(title=f"{rule.code} {rule.name} ({about})", verdict=(), sections=(section,))


def _lines(page: str) -> Iterator[str]:
    """A paragraph is a line, and so is a line of code."""
    for kind, text in chunks(page):
        yield from (f"    {line}" for line in text.splitlines()) if kind == "code" else (" ".join(text.split()),)
