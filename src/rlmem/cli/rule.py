"""``rlmem rule``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, output_options, write_whole
from rlmem.errors import UsageError


@click.command("rule")
@click.argument("code", required=False, shell_complete=completion.rule)
@click.option("--pages", is_flag=True, help="Write all manual pages: an index (-o FILE), and a folder beside it.")
@output_options
def command(code: str | None, pages: bool, as_json: bool, format_: str | None, output: Path | None) -> int:
    """The manual page of a rule, or the list of rules.

    \b
    Examples:
      rlmem rule
      rlmem rule MEM101
      rlmem rule duplicate-next-obs
      rlmem rule --pages -o docs/rules.md
    """
    from rlmem.lint.catalogue import find, manual
    from rlmem.report.render import render_view
    from rlmem.report.rule_pages import page_markdown

    found = manual() if code is None else (find(code),)
    document = [
        {
            "code": rule.code,
            "name": rule.name,
            "family": rule.family,
            "severity": rule.severity,
            "subjects": list(rule.subjects),
            "page": page.strip(),
        }
        for rule, page in found
    ]
    if pages:
        _write_pages(document, output)
        return 0
    wanted = chosen_format(format_, output, as_json=as_json)
    if code is not None and wanted == "markdown":
        emit(page_markdown(document[0]), output)
    else:
        emit(render_view(document, _list_view if code is None else _page_view, wanted, output), output)
    return 0


def _write_pages(document: list[dict[str, Any]], index: Path | None) -> None:
    """The index, and a page for each rule in a folder of the same name; pages of rules that are gone go too."""
    from rlmem.report.rule_pages import index_markdown, page_markdown

    if index is None:
        raise UsageError("--pages writes many files: name the index, such as -o docs/rules.md")
    folder = index.with_suffix("")
    try:
        folder.mkdir(exist_ok=True)
        for old in folder.glob("MEM[0-9][0-9][0-9].md"):
            if old.stem not in {rule["code"] for rule in document}:
                old.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from None
    for rule in document:
        write_whole(folder / f"{rule['code']}.md", page_markdown(rule))
    write_whole(index, index_markdown(document))
    print(f"wrote {index} and {len(document)} pages in {folder}", file=sys.stderr)


def _list_view(document: list[dict[str, Any]]) -> Any:
    from rlmem.report.view import Column, Section, Table, View

    rows = tuple(
        (r["code"], r["name"], r["severity"], r["family"], ", ".join(r["subjects"]), r["page"].splitlines()[0])
        for r in document
    )
    titles = ("code", "name", "severity", "family", "looks at", "what it finds")
    ranks = {"severity": 1, "looks at": 2, "family": 3}
    columns = tuple(Column(title=title, right=False, rank=ranks.get(title, 0)) for title in titles)
    table = Table(title="", columns=columns, rows=rows)
    return View(
        title="rlmem rules",
        verdict=(),
        sections=(Section(title="Rules", tables=(table,)),),
        notes=("'rlmem rule CODE' prints a manual page.",),
    )


def _page_view(document: list[dict[str, Any]]) -> Any:
    from rlmem.report.view import Section, View

    rule = document[0]
    first, *rest = _lines(rule["page"])
    about = f"{rule['severity']}, {rule['family']}; looks at {', '.join(rule['subjects'])}"
    section = Section(title=first, lines=tuple(rest))
    return View(title=f"{rule['code']} {rule['name']} ({about})", verdict=(), sections=(section,))


def _lines(page: str) -> Iterator[str]:
    """A paragraph is a line, and so is a line of code."""
    from rlmem.report.rule_pages import chunks

    for kind, text in chunks(page):
        yield from (f"    {line}" for line in text.splitlines()) if kind == "code" else (" ".join(text.split()),)
