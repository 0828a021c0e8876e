"""Memory mistakes in scripts: found, fixed, shown as patches, or known from now on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlmem.core.findings import Place
from rlmem.core.printable import printable
from rlmem.documents.lint import (
    EditPart,
    FixedPart,
    FixPart,
    KnownPart,
    LintDocument,
    LintFindingPart,
    ProblemPart,
    StalePart,
)
from rlmem.documents.parts import part_of
from rlmem.errors import RlmemError
from rlmem.lint.baseline import baseline_text
from rlmem.lint.files import Problem
from rlmem.lint.linter import FileReport, Found
from rlmem.lint.session import Session
from rlmem.lint.settings import Asked

#: What hears of everything that could not be analysed or fixed, as it happens.
Tell = Callable[[object], None]
#: What hears how many of how many files are done.
Tick = Callable[[int, int], None]


class FixInterruptedError(RlmemError):
    """Somebody stopped the making of fixes; it says which files have theirs."""

    exit_code = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """Files to be linted.

    Attributes:
        paths: files and folders; the current folder when empty.
        text: bytes that stand for the one file that is named.
        rules: which rules are asked and how severe findings have to be, the memory there is, and the baseline.
        fix: the safeties of the fixes to make.
    """

    paths: tuple[Path, ...] = ()
    text: bytes | None = None
    rules: Asked = field(default_factory=Asked)
    fix: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """Fixes as patches, and what lint found; nothing was written."""

    texts: tuple[str, ...]
    document: LintDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What is known from now on: the file, its text, how many findings, and whether some file could not be analysed."""

    path: Path
    text: str
    findings: int
    failed: bool


def _nobody(*_: object) -> None:
    return None


def lint(request: LintRequest, *, tell: Tell = _nobody, tick: Tick = _nobody) -> LintDocument:
    """Lint files, and make the fixes that are asked for.

    Args:
        request: the files and the rules.
        tell: hears of everything that could not be analysed or fixed, as it happens.
        tick: hears how many of how many files are done.

    Returns:
        What was found; of fixed files what is still found.

    Raises:
        UsageError: the settings, the baseline, a rule or a path is wrong.
        FixInterruptedError: somebody pressed Ctrl-C while fixes were made.
    """
    session = _linted(request, tell, tick)
    try:
        if request.fix:
            session.fix(request.fix)
    except KeyboardInterrupt:
        fixed = ", ".join(session.fixed) or "nothing"
        raise FixInterruptedError(printable(f"interrupted; fixed: {fixed}")) from None
    return _document(session, tell)


def lint_patches(
    request: LintRequest, safeties: tuple[str, ...], *, tell: Tell = _nobody, tick: Tick = _nobody
) -> Patches:
    """Lint files, and return the fixes of these safeties as patches, one safety on top of the other."""
    session = _linted(request, tell, tick)
    texts = tuple(session.patches(safeties))
    return Patches(texts=texts, document=_document(session, tell))


def lint_baseline(request: LintRequest, *, tell: Tell = _nobody, tick: Tick = _nobody) -> Baseline:
    """Lint files, and return the baseline by which all of their findings are known; nothing is written."""
    session = _linted(request, tell, tick, anew=True)
    assert session.settings.baseline is not None
    entries = session.baseline_entries()
    return Baseline(
        path=session.settings.baseline,
        text=baseline_text(entries),
        findings=len(entries),
        failed=any(problem.failed for problem in session.problems),
    )


def _linted(request: LintRequest, tell: Tell, tick: Tick, *, anew: bool = False) -> Session:
    session = Session(request.paths or (Path(),), request.rules, tell=tell, anew=anew)
    if request.text is None:
        session.lint_files(tick)
    else:
        session.lint_text(request.text)
    return session


def _document(session: Session, tell: Tell) -> LintDocument:
    document = lint_document(session.reports, session.problems, stale=session.stale(), fixed=session.fixed)
    for entry in document.stale:
        where = f"{session.settings.baseline}: {entry.code} in {entry.path}"
        tell(f"{where} is not found any more; --write-baseline forgets it")
    return document


def lint_document(
    reports: Sequence[FileReport],
    problems: Iterable[Problem] = (),
    *,
    stale: Iterable[KnownPart] = (),
    fixed: Mapping[str, Sequence[str]] | None = None,
) -> LintDocument:
    """Return what came of files as a document."""
    return LintDocument(
        files=sum(report.digest is not None for report in reports),
        findings=tuple(_finding(report, found) for report in reports for found in report.shown),
        hidden=sum(len(report.hidden) for report in reports),
        silenced=sum(report.silenced for report in reports),
        known=sum(len(report.known) for report in reports),
        stale=tuple(part_of(StalePart, known) for known in stale),
        fixed=tuple(FixedPart(path=path, codes=tuple(codes)) for path, codes in (fixed or {}).items()),
        problems=tuple(part_of(ProblemPart, problem) for problem in problems),
    )


def _finding(report: FileReport, found: Found) -> LintFindingPart:
    finding = found.finding
    place = finding.place or Place(path=report.path, line=1, column=1, end_line=1, end_column=1)
    fix = finding.fix and FixPart(
        title=finding.fix.title,
        safety=finding.fix.safety,
        edits=tuple(part_of(EditPart, where, text=text) for where, text in found.changes),
    )
    return part_of(
        LintFindingPart,
        finding,
        path=report.path,
        line=place.line,
        column=place.column,
        end_line=place.end_line,
        end_column=place.end_column,
        cell=place.cell,
        source=found.source_line,
        fingerprint=found.fingerprint,
        fix=fix,
    )
