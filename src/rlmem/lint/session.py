"""One call of lint: the files that were named, their reports, the baseline, and the fixes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rlmem.core.printable import printable
from rlmem.documents.lint import KnownPart
from rlmem.errors import UsageError
from rlmem.lint.baseline import Key, NotBaselineError, read_baseline
from rlmem.lint.files import Problem, discover
from rlmem.lint.fixing import Fixing, fix_file, fix_text
from rlmem.lint.linter import FileReport, Linter
from rlmem.lint.many import lint_many
from rlmem.lint.reading import Text, Unreadable, decode, is_notebook, read_file
from rlmem.lint.settings import Asked, settings_for


class Session:
    """What is known so far; ``tell`` hears of everything that could not be analysed or fixed, as it happens."""

    def __init__(
        self, named: Sequence[Path], asked: Asked, *, tell: Callable[[object], None], anew: bool = False
    ) -> None:
        self.named, self._tell = tuple(named), tell
        self.settings = settings_for(named, asked)
        self.problems: list[Problem] = []
        self.reports: list[FileReport] = []
        self.fixed: dict[str, list[str]] = {}
        self._given: Text | None = None  # standard input
        file = self.settings.baseline
        if anew and file is None:
            raise UsageError("--write-baseline: name the file with --baseline, or in pyproject.toml")
        self.baseline = self._read_baseline(file, anew=anew) if file is not None else {}
        known = frozenset[Key]() if anew else frozenset(self.baseline)
        self.linter = Linter(self.settings, self.settings.budget(), known)

    def _read_baseline(self, file: Path, *, anew: bool) -> dict[Key, KnownPart]:
        """What is known; a file that is about to be written anew need not be there, nor be whole."""
        if anew and not file.exists():
            return {}
        try:
            return read_baseline(file)
        except NotBaselineError as error:
            if not anew:
                raise
            self._tell(f"{error}; written anew")
            return {}

    def _problem(self, problem: Problem) -> None:
        self.problems.append(problem)
        self._tell(problem)

    def lint_text(self, data: bytes) -> None:
        """Bytes that stand for the file that was named."""
        path = self.named[0]
        try:
            self._given = decode(data, notebook=is_notebook(str(path)))
        except Unreadable as error:
            self._problem(Problem(path=str(path), text=str(error)))
            return
        self._reported(self.linter.lint(path, self._given))

    def lint_files(self, tick: Callable[[int, int], None] = lambda done, total: None) -> None:
        """The files that were named, and those in the folders; ``tick`` hears how many of how many are done."""
        files = discover(self.named, self.settings.exclude, self.settings.root, self._problem)
        if not files and not self.problems:
            self._tell("no Python files or notebooks there")
        for done, report in enumerate(lint_many(self.linter, files), 1):
            self._reported(report)
            tick(done, len(files))

    def _reported(self, report: FileReport) -> None:
        self.reports.append(report)
        if report.problem is not None:
            self._problem(report.problem)

    def fix(self, safeties: tuple[str, ...]) -> None:
        """Make the fixes of these safeties, file by file."""
        for number, report in enumerate(self.reports):
            if not _fixable(report, safeties):
                continue
            fixing = fix_file(self.linter, report, safeties)
            if isinstance(fixing, Problem):
                self._problem(fixing)
                continue
            self._said(fixing)
            self.reports[number] = fixing.report
            if fixing.made:
                self.fixed[report.path] = [finding.code for finding in fixing.made]

    def patches(self, safeties: tuple[str, ...]) -> list[str]:
        """The fixes of these safeties as patches, one safety on top of the other; nothing is written."""
        patches = []
        for report in self.reports:
            if not _fixable(report, safeties):
                continue
            try:
                text = self._given or read_file(Path(report.path))
            except Unreadable as error:  # it was readable when it was linted
                self._problem(Problem(path=report.path, text=f"no patch: {error}"))
                continue
            now = report
            for safety in safeties:
                fixing = fix_text(self.linter, now, text, (safety,))
                self._said(fixing)
                if fixing.made:
                    patches.append(_patch(safety, fixing))
                now, text = fixing.report, replace(text, text=fixing.after)
        return patches

    def _said(self, fixing: Fixing) -> None:
        for problem in fixing.problems:
            self._problem(problem)

    def stale(self) -> list[KnownPart]:
        """Entries of the baseline that nothing matches any more, in files that were linted or are gone."""
        linted = {report.key for report in self.reports if _is_whole(report)}
        matched = {key for report in self.reports for key in report.known}
        return [
            entry
            for key, entry in self.baseline.items()
            if key not in matched
            and key[1] in self.settings.enabled_for(key[0])
            and (key[0] in linted or not self._exists(key[0]))
        ]

    def baseline_entries(self) -> list[KnownPart]:
        """What is found now is known from now on; so is what was known, and what nobody asked about this time.

        That is: in files that were not linted or could not be, of rules that are left out, below the severity asked for.
        """
        linted = {report.key for report in self.reports if _is_whole(report)}
        hidden = {key for report in self.reports for key in report.hidden}
        shown = {(report.key, item.finding.code, item.fingerprint) for report in self.reports for item in report.shown}
        kept = [
            entry
            for key, entry in self.baseline.items()
            if key not in shown
            and self._exists(key[0])
            and (key[0] not in linted or key in hidden or key[1] not in self.settings.enabled_for(key[0]))
        ]
        found = [
            KnownPart(
                path=report.key,
                line=item.finding.place.line if item.finding.place else None,
                code=item.finding.code,
                fingerprint=item.fingerprint,
            )
            for report in self.reports
            for item in report.shown
        ]
        return [*kept, *found]

    def _exists(self, key: str) -> bool:
        return os.path.exists(self.settings.root / key)


def _is_whole(report: FileReport) -> bool:
    """Whether all of a file was looked at, so that what is not found in it is not there."""
    return report.digest is not None and report.problem is None


def _fixable(report: FileReport, safeties: Sequence[str]) -> bool:
    return any(found.finding.fix and found.finding.fix.safety in safeties for found in report.shown)


def _patch(what: str, fixing: Fixing) -> str:
    """A patch with a line above it for each finding; ``git apply`` passes over those."""
    titles = [f"# {finding.code}: {printable(finding.fix.title)} ({what})\n" for finding in fixing.made if finding.fix]
    return "".join((*dict.fromkeys(titles), fixing.diff()))
