"""The rules, as views: the list of them, and one manual page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rlmem.documents.rules import RulePart
from rlmem.report.rule_pages import chunks
from rlmem.report.view import Column, Section, Table, View


def rules_view(rules: Sequence[RulePart]) -> View:
    """Arrange the list of rules."""
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
        for rule in rules
    )
    return View(
        title="rlmem rules",
        verdict=(),
        sections=(Section(title="Rules", tables=(Table(title="", columns=columns, rows=rows),)),),
        notes=("'rlmem rule CODE' prints a manual page.",),
    )


def rule_view(rules: Sequence[RulePart]) -> View:
    """Arrange the manual page of the one rule there is."""
    (rule,) = rules
    first, *rest = _lines(rule.page)
    about = f"{rule.severity}, {rule.family}; looks at {', '.join(rule.subjects)}"
    section = Section(title=first, lines=tuple(rest))
    return View(title=f"{rule.code} {rule.name} ({about})", verdict=(), sections=(section,))


def _lines(page: str) -> Iterator[str]:
    """A paragraph is a line, and so is a line of code."""
    for kind, text in chunks(page):
        yield from (f"    {line}" for line in text.splitlines()) if kind == "code" else (" ".join(text.split()),)
