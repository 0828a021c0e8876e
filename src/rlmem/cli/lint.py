"""``rlmem lint``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli import completion
from rlmem.cli.common import emit, in_typed_unit, write_whole
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.documents.lint import LintDocument, LintResult, NewBaselinePart, PatchesPart

FORMATS = ("text", "json", "github", "sarif", "junit")
_BY_NAME = {".json": "json", ".sarif": "sarif", ".xml": "junit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LintOutput:
    """How findings are written, and where: ``--json``, ``--format``, ``--statistics`` and ``-o``."""

    format: str = "text"
    statistics: bool = False
    path: Path | None = None

    def check(self, *, diff: bool) -> None:
        """Fail before the work rather than after: a patch and statistics are texts of their own."""
        if diff and self.format != "text":
            raise UsageError(f"--diff prints a patch, not {self.format}")
        if self.statistics and (self.format != "text" or diff):
            raise UsageError("--statistics is a text of its own")

    def show(self, result: LintResult) -> None:
        """Print findings or patches, or write them to the file; write a new baseline to its own."""
        from rlmem.documents.lint import LintDocument, PatchesPart

        match result:
            case LintDocument():
                emit(self._rendered(result), self.path)
            case PatchesPart():
                self._show_patches(result)
            case baseline:
                _write_baseline(baseline)

    def _show_patches(self, patches: PatchesPart) -> None:
        """Print patches, and on standard error what they do not say."""
        from rlmem.report.lint import summary

        if patches.texts or self.path is not None:
            emit("".join(patches.texts), self.path)
        for line in summary(patches.document):
            print(line, file=sys.stderr)

    def _rendered(self, document: LintDocument) -> str:
        from rlmem.report.lint import render_text, statistics_text
        from rlmem.report.lint_formats import RENDERERS, render_sarif

        if self.statistics:
            return statistics_text(document)
        if self.format == "sarif":
            from rlmem.app.rules import list_rules

            return render_sarif(document, list_rules().rules)
        if self.format == "text":
            width = shutil.get_terminal_size().columns if self.path is None and sys.stdout.isatty() else None
            return render_text(document, width=width, coloured=width is not None and not os.environ.get("NO_COLOR"))
        return RENDERERS[self.format](document)


def _write_baseline(new: NewBaselinePart) -> None:
    from rlmem.report.lint_formats import render_baseline

    write_whole(Path(new.path), render_baseline(new.baseline))
    print(f"wrote {new.path}: {len(new.baseline.findings)} known findings", file=sys.stderr)


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read()


def _say(text: object) -> None:
    """A line on standard error; names of files in it cannot move the cursor."""
    from rlmem.core.printable import printable

    print(f"rlmem: {printable(str(text))}", file=sys.stderr)


def lint_output_options(function: Callable[..., int]) -> Callable[..., int]:
    """``--statistics``, ``--json``, ``--format`` and ``-o``, which a command gets as ``out``."""

    @wraps(function)
    def command(*, statistics: bool, as_json: bool, format_: str | None, output: Path | None, **others: Any) -> int:
        if as_json and format_ not in (None, "json"):
            raise UsageError(f"--json and --format {format_} contradict each other")
        chosen = "json" if as_json else format_ or _BY_NAME.get(output.suffix.lower() if output else "", "text")
        return function(out=LintOutput(format=chosen, statistics=statistics, path=output), **others)

    for option in (
        click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file."),
        click.option("--format", "format_", type=click.Choice(FORMATS), help="Output format."),
        click.option("--json", "as_json", is_flag=True, help="Machine-readable output; same as --format json."),
    ):
        command = option(command)
    return command


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=completion.files)
@click.option(
    "--select",
    multiple=True,
    metavar="RULES",
    shell_complete=completion.rules,
    help="Only these: codes, beginnings (MEM2), names, families.",
)
@click.option("--ignore", multiple=True, metavar="RULES", shell_complete=completion.rules, help="All but these.")
@click.option("--severity", type=click.Choice(("error", "warning", "info")), help="The mildest to show [warning].")
@click.option(
    "--ram",
    metavar="SIZE",
    callback=in_typed_unit,
    help="Memory the runs may use; without it none is called too large.",
)
@click.option("--fix", is_flag=True, help="Make the safe fixes.")
@click.option("--unsafe-fixes", is_flag=True, help="With --fix: those that may change what the program does, too.")
@click.option(
    "--diff",
    is_flag=True,
    help="Show fixes as a patch and write nothing: all of them, or with --fix those it would make.",
)
@click.option("--baseline", type=click.Path(path_type=Path), metavar="FILE", help="Findings that are known.")
@click.option("--write-baseline", is_flag=True, help="Write what is found now to the baseline.")
@click.option("--statistics", is_flag=True, help="How often each rule found something.")
@click.option("--exit-zero", is_flag=True, help="Exit 0 in spite of findings.")
@click.option("--stdin-filename", metavar="NAME", help="What the text on standard input ('-') is called.")
@lint_output_options
def command(exit_zero: bool, out: LintOutput, **options: Any) -> int:
    """Find memory mistakes in training scripts, without running them.

    PATH is a file, a folder (its .py and .ipynb files), or '-' for standard input; the current folder when none is given.
    Runs that a script describes completely are planned too, against --ram. Settings are read from [tool.rlmem] in the
    nearest pyproject.toml; '# rlmem: ignore[MEM101] reason' silences a rule on a line. 'rlmem rule CODE' explains a rule.

    \b
    Examples:
      rlmem lint train.py src/
      rlmem lint . --diff
      rlmem lint . --fix
      rlmem lint . --format sarif -o rlmem.sarif
      rlmem lint . --select buffers,MEM204 --severity info
      rlmem lint . --baseline rlmem-baseline.json --write-baseline
      cat train.py | rlmem lint - --stdin-filename train.py

    Exits 1 when there are findings (with --diff: something to change), 3 when there are none but some file could not be
    analysed; what could not is named on standard error, and the rest is linted.
    """
    from rlmem.app.lint import LintRequest, lint
    from rlmem.report.progress import FileCount

    request = LintRequest(stdin=_read_stdin, **options)
    out.check(diff=request.diff)
    with FileCount() as tick:
        result = lint(request, tell=_say, tick=tick)
    out.show(result)
    return 1 if not result.is_clean and not exit_zero else 3 if result.failed else 0
