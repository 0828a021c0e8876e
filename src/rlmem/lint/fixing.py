"""Fixes: chosen so that none touches another, made until nothing is left to make, and written whole or not at all."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlmem.core.edits import Edit, apply, diff, overlap
from rlmem.core.findings import Finding
from rlmem.lint.files import Problem, why
from rlmem.lint.linter import FileReport, Found, Linter
from rlmem.lint.notebooks import InexactError, with_edits
from rlmem.lint.reading import Text, Unreadable, is_notebook, read_file
from rlmem.lint.writing import replace_file

#: A fix can make room for another; one that comes back every time would never end.
ROUNDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixing:
    """What fixes did to one text: before and after, the findings that are gone, and what is said about the text now."""

    before: str
    after: str
    made: tuple[Finding, ...]
    report: FileReport
    problems: tuple[Problem, ...] = ()

    def diff(self) -> str:
        """As a patch."""
        return diff(self.report.path, self.before, self.after)


def fix_text(linter: Linter, report: FileReport, text: Text, safeties: Sequence[str]) -> Fixing:
    """The text with all fixes of these safeties made, as long as what comes out parses; nothing is written."""
    before = text.text
    made: list[Finding] = []
    problems: list[Problem] = []
    now = replace(report, problem=None)
    for _ in range(ROUNDS):
        taken, left = _chosen(now.shown, safeties)
        if not taken:
            break
        changed = None
        try:
            changed = _edited(linter, report.path, text.text, taken)
            made_now = replace(text, text=changed, digest=hashlib.sha256(text.encoded(changed)).hexdigest())
            after = linter.lint(Path(report.path), made_now)
            trouble = after.problem.text if after.problem and after.problem.failed else None
        except InexactError as error:
            trouble = str(error)
        except UnicodeEncodeError:
            trouble = f"a fix needs characters that {text.encoding} does not have"
        if trouble is not None or changed is None:
            codes = ", ".join(dict.fromkeys(finding.code for finding in taken))
            problems.append(Problem(path=report.path, text=f"not fixed ({codes}): {trouble}; left as it was"))
            break
        made += taken
        text, now = made_now, after
        problems += [_overlapping(report.path, finding) for finding in left]
    else:
        problems.append(Problem(path=report.path, text=f"fixes were still being made after {ROUNDS} rounds"))
    return Fixing(before=before, after=text.text, made=tuple(made), report=now, problems=tuple(problems))


def _chosen(found: Sequence[Found], safeties: Sequence[str]) -> tuple[list[Finding], list[Finding]]:
    """The findings whose fixes can be made together, the first ones first; and those that have to wait."""
    taken: list[Finding] = []
    left: list[Finding] = []
    edits: list[Edit] = []
    for finding in (item.finding for item in found):
        if finding.fix is None or finding.fix.safety not in safeties or not finding.fix.edits:
            continue
        if overlap(finding.fix.edits, edits):
            left.append(finding)
        else:
            taken.append(finding)
            edits += finding.fix.edits
    return taken, left


def _overlapping(path: str, finding: Finding) -> Problem:
    path = f"{path}:{finding.place.line}" if finding.place else path
    text = f"the fix of {finding.code} overlaps another, and was left until that one was made"
    return Problem(path=path, text=text, failed=False)


def _edited(linter: Linter, path: str, text: str, taken: Sequence[Finding]) -> str:
    edits = [edit for finding in taken if finding.fix for edit in finding.fix.edits]
    if is_notebook(path):
        return with_edits(linter.parse(text, path).source, text, edits)
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    return apply(text, [replace(edit, text=re.sub(r"\r\n|\n", newline, edit.text)) for edit in edits])


def fix_file(linter: Linter, report: FileReport, safeties: Sequence[str]) -> Fixing | Problem:
    """A file fixed and written back; refused when it is no longer the one that was linted."""
    path = Path(report.path)
    try:
        text = read_file(path)
    except Unreadable as error:
        return Problem(path=report.path, text=f"not fixed: {error}")
    if text.digest != report.digest:
        return Problem(path=report.path, text="not fixed: it was changed since it was linted; lint it again")
    fixing = fix_text(linter, report, text, safeties)
    if fixing.after == fixing.before:
        return fixing
    try:
        replace_file(path, text.encoded(fixing.after), text.digest)
    except OSError as error:
        return Problem(path=report.path, text=f"not fixed: {why(error)}")
    return fixing
