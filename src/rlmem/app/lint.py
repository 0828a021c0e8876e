"""Memory mistakes in scripts: found, fixed, shown as patches, or known from now on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlmem.core.findings import Place
from rlmem.core.printable import printable
from rlmem.documents.lint import (
    BaselineDocument,
    EditPart,
    FixedPart,
    FixPart,
    KnownPart,
    LintDocument,
    LintFindingPart,
    LintResult,
    NewBaselinePart,
    PatchesPart,
    ProblemPart,
    StalePart,
)
from rlmem.documents.parts import part_of
from rlmem.errors import RlmemError, UsageError
from rlmem.lint.files import Problem
from rlmem.lint.linter import FileReport, Found
from rlmem.lint.session import Session
from rlmem.lint.settings import Asked

#: The path that stands for standard input.
STDIN = "-"
#: What hears of everything that could not be analysed or fixed, as it happens.
Tell = Callable[[object], None]
#: What hears how many of how many files are done.
Tick = Callable[[int, int], None]


class FixInterruptedError(RlmemError):
    """Somebody stopped the making of fixes; it says which files have theirs."""

    exit_code = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class LintRequest:
    """Files to be linted, and what to do about what is found.

    Attributes:
        paths: files and folders; the current folder when empty, and standard input where ``-`` is the only one.
        stdin: reads what ``-`` stands for.
        stdin_filename: what that is called.
        select: rules to ask, with commas between some of them; all when empty.
        ignore: rules that are not asked.
        severity: the mildest finding to show.
        ram: memory the runs may use.
        baseline: the file of findings that are known.
        fix: make the safe fixes.
        unsafe_fixes: make the others too.
        diff: return fixes as patches and write nothing: those that ``fix`` would make, or without it all.
        write_baseline: return the baseline by which everything that is found is known.

    Raises:
        UsageError: some of that contradicts the rest.
    """

    paths: tuple[str, ...] = ()
    stdin: Callable[[], bytes] | None = None
    stdin_filename: str | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: str | None = None
    ram: str | None = None
    baseline: Path | None = None
    fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    write_baseline: bool = False

    def __post_init__(self) -> None:
        changes = self.fix or self.diff
        for wrong, text in (
            (self.unsafe_fixes and not self.fix, "--unsafe-fixes goes with --fix; --diff alone shows all fixes"),
            (self.write_baseline and changes, "--write-baseline writes what is found; fix before or after"),
            (STDIN in self.paths and len(self.paths) > 1, "'-' stands alone"),
            (STDIN in self.paths and self.fix, "'-' is no file that could be fixed; --diff shows the fixes"),
            (self.select and not _split(self.select), "--select: names no rule; without it all are asked"),
        ):
            if wrong:
                raise UsageError(text)

    @property
    def safeties(self) -> tuple[str, ...]:
        """The safeties of the fixes to make or to show."""
        return ("safe",) if self.fix and not self.unsafe_fixes else ("safe", "unsafe")

    def asked(self) -> Asked:
        """Return what of it stands beside the settings of a project."""
        return Asked(
            select=_split(self.select),
            ignore=_split(self.ignore),
            severity=self.severity,
            ram=self.ram,
            baseline=self.baseline,
        )


def _split(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word.strip() for some in words for word in some.split(",") if word.strip())


def _nobody(*_: object) -> None:
    return None


def lint(request: LintRequest, *, tell: Tell = _nobody, tick: Tick = _nobody) -> LintResult:
    """Lint files, and make the fixes, the patches or the baseline that are asked for.

    Args:
        request: the files, the rules, and what to make of the findings.
        tell: hears of everything that could not be analysed or fixed, as it happens.
        tick: hears how many of how many files are done.

    Returns:
        What was found, of fixed files what is still found; or patches with it; or a baseline, which is not written yet.

    Raises:
        UsageError: the settings, the baseline, a rule or a path is wrong.
        FixInterruptedError: somebody pressed Ctrl-C while fixes were made.
    """
    session = _linted(request, tell, tick)
    if request.write_baseline:
        return _new_baseline(session)
    if request.diff:
        texts = tuple(session.patches(request.safeties))
        return PatchesPart(texts=texts, document=_document(session, tell))
    try:
        if request.fix:
            session.fix(request.safeties)
    except KeyboardInterrupt:
        fixed = ", ".join(session.fixed) or "nothing"
        raise FixInterruptedError(printable(f"interrupted; fixed: {fixed}")) from None
    return _document(session, tell)


def _linted(request: LintRequest, tell: Tell, tick: Tick) -> Session:
    text = request.stdin() if request.paths == (STDIN,) and request.stdin is not None else None
    words = request.paths or (".",) if text is None else (request.stdin_filename or "stdin.py",)
    session = Session(tuple(map(Path, words)), request.asked(), tell=tell, anew=request.write_baseline)
    if text is None:
        session.lint_files(tick)
    else:
        session.lint_text(text)
    return session


def _new_baseline(session: Session) -> NewBaselinePart:
    assert session.settings.baseline is not None  # the session has refused to begin without one
    known = sorted(session.baseline_entries(), key=lambda entry: (entry.path, entry.line or 0, entry.code))
    return NewBaselinePart(
        path=str(session.settings.baseline),
        baseline=BaselineDocument(findings=tuple(known)),
        failed=any(problem.failed for problem in session.problems),
    )


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
