"""What lint found, as lines of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rlmem.core.findings import SEVERITIES
from rlmem.core.printable import printable
from rlmem.documents.lint import BaselineDocument, LintDocument, LintFindingPart
from rlmem.report.layout import NO_BREAK, wrap
from rlmem.report.view import Column, Item, Section, Table, View
from rlmem.units import format_size

_CODES = {"error": "1;31", "warning": "1;33", "info": "1;36", "path": "1", "dim": "2"}


def render_text(document: LintDocument, *, width: int | None = None, coloured: bool = False) -> str:
    """A line for each finding and one for what to do; in a terminal, of that width, also the line of the script and a caret."""
    lines = [line for finding in document.findings for line in _lines(finding, width, coloured)]
    return "\n".join((*lines, *(part for line in summary(document) for part in _wrapped(line, width)))) + "\n"


_TONES = {"error": "bad", "warning": "warn", "info": "plain"}


def lint_view(document: LintDocument) -> View:
    """Arrange what ``rlmem show`` shows of findings that were saved."""
    items = tuple(
        Item(
            lead=finding.code,
            text=f"{location(finding)}: {_plain(finding.title)}",
            tone=_TONES[finding.severity],
            saves=cost(finding),
            more=(f"{_plain(finding.remedy)}{_how(finding)}",) if finding.remedy else (),
        )
        for finding in document.findings
    )
    problems = tuple(f"{printable(problem.path)}: {_plain(problem.text)}" for problem in document.problems)
    sections = (
        Section(title="Findings", lines=tuple(summary(document)), items=items),
        *((Section(title="Not analysed", lines=problems),) if problems else ()),
    )
    return View(title="rlmem lint", verdict=(), sections=sections)


def baseline_view(document: BaselineDocument) -> View:
    """Arrange what ``rlmem show`` shows of a baseline."""
    columns = (Column(title="file", right=False), Column(title="line"), Column(title="rule", right=False))
    rows = tuple(
        (printable(known.path), "" if known.line is None else str(known.line), known.code)
        for known in document.findings
    )
    table = Table(title="", columns=columns, rows=rows)
    section = Section(title=counted(len(rows), "known finding"), tables=(table,) if rows else ())
    return View(title="rlmem lint --baseline", verdict=(), sections=(section,))


def _wrapped(text: str, width: int | None, indent: int = 4) -> list[str]:
    """A line, in a terminal in lines of whole words; outside one it stays a line, for grep and editors."""
    if width is None:
        return [text]
    first, *more = wrap(text, width)
    return [first, *(" " * indent + line for line in wrap(" ".join(more), width - indent) if more)]


def _paint(text: str, style: str, coloured: bool) -> str:
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if coloured else text


def _lines(finding: LintFindingPart, width: int | None, coloured: bool) -> Iterator[str]:
    where, code = f"{location(finding)}:", finding.code
    size = cost(finding).replace(" ", NO_BREAK)
    title = f"{_plain(finding.title)}{f' [{size}]' if size else ''}"
    first, *more = _wrapped(f"{where} {code} {title}", width)
    lead = f"{where} {code}"
    if first.startswith(lead):
        painted = f"{_paint(where, 'path', coloured)} {_paint(code, finding.severity, coloured)}"
        first = painted + first.removeprefix(lead)
    yield from (line.replace(NO_BREAK, " ") for line in (first, *more))
    if width is not None and finding.source.strip():
        source = finding.source.expandtabs(1)
        indent = len(source) - len(source.lstrip())
        start = max(finding.column - 1 - indent, 0)
        one_line = finding.end_line == finding.line
        marked = max((finding.end_column if one_line else len(source) + 1) - finding.column, 1)
        yield f"    {_plain(source.strip())}"
        yield f"    {' ' * start}{_paint('^' * marked, finding.severity, coloured)}"
    if finding.remedy:
        remedy = _wrapped(f"    → {_plain(finding.remedy)}{_how(finding)}", width, indent=6)
        yield from (_paint(line, "dim", coloured) for line in remedy)


def _how(finding: LintFindingPart) -> str:
    if finding.fix is None:
        return ""
    return " (--fix)" if finding.fix.safety == "safe" else " (--fix --unsafe-fixes)"


def _plain(text: str) -> str:
    """Text of the user's without anything a terminal would obey."""
    return "".join(character if character.isprintable() else "�" for character in text)


def location(finding: LintFindingPart) -> str:
    """``train.py:12:5``, or ``train.ipynb:cell 3:2:5``."""
    cell = f"cell {finding.cell}:" if finding.cell else ""
    return f"{printable(finding.path)}:{cell}{finding.line}:{finding.column}"


def cost(finding: LintFindingPart) -> str:
    """What it saves or costs, where that is known."""
    if finding.saves_bytes:
        return f"saves {format_size(finding.saves_bytes)}"
    if finding.costs_bytes:
        each = f" per {finding.costs_per}" if finding.costs_per else ""
        return f"costs {format_size(finding.costs_bytes)}{each}"
    return ""


def summary(document: LintDocument) -> Iterator[str]:
    """How many, of what, and what was left out."""
    findings = document.findings
    fixed = sum(len(entry.codes) for entry in document.fixed)
    if fixed:
        yield f"fixed {counted(fixed, 'finding')} in {counted(len(document.fixed), 'file')}"
    files = counted(document.files, "file")
    if not findings:
        yield f"no findings in {files}"
    else:
        severities = Counter(finding.severity for finding in findings)
        parts = [
            counted(severities[name], name) if name != "info" else f"{severities[name]} info" for name in SEVERITIES
        ]
        shown = ", ".join(part for part, name in zip(parts, SEVERITIES, strict=True) if severities[name])
        yield f"{counted(len(findings), 'finding')} in {files} ({shown})"
    safeties = Counter(finding.fix.safety for finding in findings if finding.fix)
    if safeties:
        options = {"safe": "--fix", "unsafe": "--fix --unsafe-fixes"}
        parts = [f"{safeties[safety]} with {option}" for safety, option in options.items() if safeties[safety]]
        yield f"can be fixed: {', '.join(parts)}; --diff shows how"
    left = [
        f"{document.hidden} below the severity asked for (--severity info shows all)" if document.hidden else "",
        f"{document.known} in the baseline" if document.known else "",
        f"{document.silenced} silenced by comments" if document.silenced else "",
    ]
    if any(left):
        yield f"not shown: {', '.join(part for part in left if part)}"


def counted(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def statistics_text(document: LintDocument) -> str:
    """How often each rule found something, most first."""
    findings = document.findings
    counts = Counter((finding.code, finding.name) for finding in findings)
    fixable = Counter(finding.code for finding in findings if finding.fix)
    rows = [
        f"{count:6} {code} {name}{f' ({fixable[code]} with a fix)' if fixable[code] else ''}"
        for (code, name), count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return "\n".join((*rows, *summary(document))) + "\n"
