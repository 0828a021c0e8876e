"""``rlmem rule``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, output_options, write_whole
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.documents.rules import RulePart


@click.command("rule")
@click.argument("code", required=False, shell_complete=completion.rule)
@click.option("--pages", is_flag=True, help="Write all manual pages: an index (-o FILE), and a folder beside it.")
@output_options
def command(code: str | None, pages: bool, out: Output) -> int:
    """The manual page of a rule, or the list of rules.

    \b
    Examples:
      rlmem rule
      rlmem rule MEM101
      rlmem rule duplicate-next-obs
      rlmem rule --pages -o docs/rules.md
    """
    from rlmem.app.rules import list_rules
    from rlmem.report.rule_pages import page_markdown

    document = list_rules(code)
    if pages:
        _write_pages(document.rules, out.path)
        return 0
    if code is not None and out.format == "markdown":
        out.write(page_markdown(document.rules[0]))
    else:
        out.show(document)
    return 0


def _write_pages(rules: tuple[RulePart, ...], index: Path | None) -> None:
    """The index, and a page for each rule in a folder of the same name; pages of rules that are gone go too."""
    from rlmem.report.rule_pages import index_markdown, page_markdown

    if index is None:
        raise UsageError("--pages writes many files: name the index, such as -o docs/rules.md")
    folder = index.with_suffix("")
    try:
        folder.mkdir(exist_ok=True)
        for old in folder.glob("MEM[0-9][0-9][0-9].md"):
            if old.stem not in {rule.code for rule in rules}:
                old.unlink()
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror or error}") from None
    for rule in rules:
        write_whole(folder / f"{rule.code}.md", page_markdown(rule))
    write_whole(index, index_markdown(rules))
    print(f"wrote {index} and {len(rules)} pages in {folder}", file=sys.stderr)
