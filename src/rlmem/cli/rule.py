"""``rlmem rule``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rlmem.cli.common import chosen_format, emit, output_options


@click.command("rule")
@click.argument("code", required=False)
@click.option("--pages", is_flag=True, help="All manual pages as one Markdown document.")
@output_options
def command(code: str | None, pages: bool, as_json: bool, format_: str | None, output: Path | None) -> int:
    """The manual page of a rule, or the list of rules.

    \b
    Examples:
      rlmem rule
      rlmem rule MEM101
      rlmem rule duplicate-next-obs
    """
    from rlmem.report.render import render_view
    from rlmem.rules import find_rule, rules

    manual = [find_rule(rule.code) for rule in rules()] if code is None else [find_rule(code)]
    document = [
        {"code": rule.code, "name": rule.name, "family": rule.family, "severity": rule.severity, "page": page.strip()}
        for rule, page in manual
    ]
    if pages:
        emit(_manual(document), output)
        return 0
    view = _list_view if code is None else _page_view
    emit(render_view(document, view, chosen_format(format_, output, as_json=as_json), output), output)
    return 0


def _manual(document: list[dict[str, str]]) -> str:
    """Every page under its family, as it goes into the documentation."""
    lines = ["# Rules", "", "<!-- written by `rlmem rule --pages -o docs/rules.md` (`make docs`) -->", ""]
    for family in dict.fromkeys(rule["family"] for rule in document):
        lines += [f"## {family.capitalize()}", ""]
        for rule in document:
            if rule["family"] == family:
                page = rule["page"].replace("``", "`")
                lines += [f"### {rule['code']} {rule['name']}", "", f"Severity: {rule['severity']}.", "", page, ""]
    return "\n".join(lines).rstrip() + "\n"


def _list_view(document: list[dict[str, str]]) -> Any:
    from rlmem.report.view import Column, Section, Table, View

    rows = tuple((r["code"], r["name"], r["severity"], r["family"], r["page"].splitlines()[0]) for r in document)
    titles = ("code", "name", "severity", "family", "what it finds")
    table = Table(title="", columns=tuple(Column(title=title, right=False) for title in titles), rows=rows)
    return View(
        title="rlmem rules",
        verdict=(),
        sections=(Section(title="Rules", tables=(table,)),),
        notes=("'rlmem rule CODE' prints a manual page.",),
    )


def _page_view(document: list[dict[str, str]]) -> Any:
    from rlmem.report.view import Section, View

    rule = document[0]
    paragraphs = tuple(" ".join(part.split()) for part in rule["page"].split("\n\n"))
    section = Section(title=paragraphs[0], lines=paragraphs[1:])
    return View(
        title=f"{rule['code']} {rule['name']} ({rule['severity']}, {rule['family']})", verdict=(), sections=(section,)
    )
