"""``rlmem lint``."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import emit, in_typed_unit, write_whole
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.app.lint import Baseline
    from rlmem.documents.lint import LintDocument

FORMATS = ("text", "json", "github", "sarif", "junit")
STDIN = "-"


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
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output; same as --format json.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Output format.")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file.")
def command(
    paths: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severity: str | None,
    ram: str | None,
    fix: bool,
    unsafe_fixes: bool,
    diff: bool,
    baseline: Path | None,
    write_baseline: bool,
    statistics: bool,
    exit_zero: bool,
    stdin_filename: str | None,
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
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
    from rlmem.app.lint import LintRequest, lint, lint_baseline, lint_patches
    from rlmem.lint.settings import Asked

    wanted = _format(format_, output, as_json)
    _check_options(paths, wanted, fix=fix, unsafe=unsafe_fixes, diff=diff, write=write_baseline, statistics=statistics)
    if select and not _split(select):
        raise UsageError("--select: names no rule; without it all are asked")
    safeties = ("safe",) if fix and not unsafe_fixes else ("safe", "unsafe")
    request = LintRequest(
        paths=_named(paths, stdin_filename),
        text=sys.stdin.buffer.read() if paths == (STDIN,) else None,
        rules=Asked(select=_split(select), ignore=_split(ignore), severity=severity, ram=ram, baseline=baseline),
        fix=safeties if fix and not diff else (),
    )
    with _Progress() as tick:
        if write_baseline:
            return _write_baseline(lint_baseline(request, tell=_say, tick=tick))
        if diff:
            patches = lint_patches(request, safeties, tell=_say, tick=tick)
            document, found = patches.document, bool(patches.texts)
        else:
            document = lint(request, tell=_say, tick=tick)
            found = bool(document.findings)
    if not diff:
        emit(_rendered(document, "statistics" if statistics else wanted, output), output)
    else:
        if patches.texts or output is not None:
            emit("".join(patches.texts), output)
        _say_rest(document)
    return 1 if found and not exit_zero else 3 if document.failed else 0


def _named(paths: tuple[str, ...], stdin_filename: str | None) -> tuple[Path, ...]:
    if paths == (STDIN,):
        return (Path(stdin_filename or "stdin.py"),)
    return tuple(Path(path) for path in paths or (".",))


def _say(text: object) -> None:
    """A line on standard error; names of files in it cannot move the cursor."""
    from rlmem.core.printable import printable

    print(f"rlmem: {printable(str(text))}", file=sys.stderr)


def _format(format_: str | None, output: Path | None, as_json: bool) -> str:
    if as_json and format_ not in (None, "json"):
        raise UsageError(f"--json and --format {format_} contradict each other")
    by_name = {".json": "json", ".sarif": "sarif", ".xml": "junit"}
    return "json" if as_json else format_ or by_name.get(output.suffix.lower() if output else "", "text")


def _check_options(
    paths: tuple[str, ...], wanted: str, *, fix: bool, unsafe: bool, diff: bool, write: bool, statistics: bool
) -> None:
    for wrong, text in (
        (unsafe and not fix, "--unsafe-fixes goes with --fix; --diff alone shows all fixes"),
        (diff and wanted != "text", f"--diff prints a patch, not {wanted}"),
        (statistics and (wanted != "text" or diff), "--statistics is a text of its own"),
        (write and (fix or diff), "--write-baseline writes what is found; fix before or after"),
        (STDIN in paths and len(paths) > 1, "'-' stands alone"),
        (STDIN in paths and fix, "'-' is no file that could be fixed; --diff shows the fixes"),
    ):
        if wrong:
            raise UsageError(text)


def _split(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.strip() for some in words for word in some.split(",") if word.strip())


def _say_rest(document: LintDocument) -> None:
    """What a patch does not say, on standard error."""
    from rlmem.report.lint import summary

    for line in summary(document):
        print(line, file=sys.stderr)


def _rendered(document: LintDocument, wanted: str, output: Path | None) -> str:
    from rlmem.report.lint import render_text, statistics_text
    from rlmem.report.lint_formats import RENDERERS, render_sarif

    if wanted == "statistics":
        return statistics_text(document)
    if wanted == "sarif":
        from rlmem.app.rules import list_rules

        return render_sarif(document, list_rules().rules)
    if wanted == "text":
        width = shutil.get_terminal_size().columns if output is None and sys.stdout.isatty() else None
        return render_text(document, width=width, coloured=width is not None and not os.environ.get("NO_COLOR"))
    return RENDERERS[wanted](document)


def _write_baseline(baseline: Baseline) -> int:
    write_whole(baseline.path, baseline.text)
    print(f"wrote {baseline.path}: {baseline.findings} known findings", file=sys.stderr)
    return 3 if baseline.failed else 0


class _Progress:
    """How many files are done, on one line of a terminal, once it has taken a while; gone when all are."""

    PATIENCE_S = 2.0

    def __init__(self) -> None:
        self.start, self.drawn = time.monotonic(), False

    def __enter__(self) -> Callable[[int, int], None]:
        return self._tick

    def _tick(self, done: int, total: int) -> None:
        if done == total:
            self._clear()
        elif time.monotonic() - self.start > self.PATIENCE_S and sys.stderr.isatty():
            self.drawn = True
            print(f"\rlinted {done} of {total} files", end="", file=sys.stderr, flush=True)

    def _clear(self) -> None:
        if self.drawn:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        self.drawn = False

    def __exit__(self, *error: object) -> None:
        self._clear()
