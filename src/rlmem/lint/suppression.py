"""A comment for rlmem that does not do what it says.

``# rlmem: ignore[MEM204] reason`` silences rules where it stands: at the end of a line of the statement, or on a line of
its own above it. ``# rlmem: ignore-file[MEM204] reason`` on a line of its own does so for a whole file. Codes and names
may be used, several separated by commas. Costs of memory that nobody sees any more stay for good, so a comment is
reported that names no rule (it silences nothing), that names one that does not exist, that has become needless, or that
gives no reason; the last two as information only.

Example::

    model = SAC("MlpPolicy", env)  # rlmem: ignore

Use instead: ``# rlmem: ignore[MEM101] the buffer is emptied after every episode``.

Fix safety: there is no fix; only its author knows what a comment was for.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rlmem.core.findings import Finding, Place
from rlmem.errors import did_you_mean
from rlmem.rules import CODES
from rlmem.rules.base import Rule
from rlmem.scripts import Script
from rlmem.scripts.source import Source

RULE = Rule(code="MEM000", name="loose-ignore", family="comments", severity="warning", subjects=("script",))
_MARK = "rlmem:"
#: Where a comment for us begins: at its start, or behind one for another program, after a blank.
_START = re.compile(r"(?<![^\s#])#\s*rlmem:", re.I)
_COMMENT = re.compile(r"#\s*rlmem:\s*(ignore(?:-file)?)\b\s*(?:\[([^\]]*)\])?\s*(.*)", re.S | re.I)
_WORD = re.compile(r"#\s*rlmem:\s*([\w-]+)\s*\[", re.I)
_KNOWN = {**{code.lower(): code for code in CODES}, **{name: code for code, name in CODES.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignore:
    """A comment that silences rules; ``words`` is ``None`` when it names none."""

    line: int
    start: int
    text: str
    whole_file: bool
    own_line: bool
    words: tuple[str, ...] | None
    reason: str

    @property
    def codes(self) -> frozenset[str]:
        """The rules it names, as far as they exist."""
        return frozenset(_KNOWN[word.lower()] for word in self.words or () if word.lower() in _KNOWN)


def silence(
    script: Script, findings: Sequence[Finding], enabled: frozenset[str]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings that no comment silences, what is to be said about the comments among them, and the silenced ones."""
    if _MARK not in script.text.lower():
        return tuple(findings), ()
    comments = list(_comments(script.source))
    ignores = [ignore for start, line, text in comments if (ignore := _ignore(script.source, start, line, text))]
    statements = _statements(script.tree)
    kept: list[Finding] = []
    silenced: list[Finding] = []
    used: dict[int, set[str]] = {}
    for finding in findings:
        lines = _lines(script, finding, statements, {ignore.line for ignore in ignores if ignore.own_line})
        by = [i for i in ignores if finding.code in i.codes and (i.whole_file or i.line in lines)]
        for ignore in by:
            used.setdefault(ignore.start, set()).add(finding.code)
        (silenced if by else kept).append(finding)
    said = [finding for ignore in ignores for finding in _said(script, ignore, used.get(ignore.start, set()), enabled)]
    said += [finding for start, line, text in comments for finding in _misspelt(script, start, text)]
    return tuple(kept + said), tuple(silenced)


def _comments(source: Source) -> Iterator[tuple[int, int, str]]:
    """Offset, line and text of each comment that is for us."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(source.code, newline="").readline):
            if token.type == tokenize.COMMENT:
                (line, column), text = token.start, token.string.rstrip("\r\n")
                begins = [match.start() for match in _START.finditer(text)]
                for begin, end in pairwise((*begins, len(text))):
                    yield source.starts[line - 1] + column + begin, line, text[begin:end].rstrip()
    except (tokenize.TokenError, SyntaxError):  # what Python parses and tokenize does not; comments so far count
        return


def _ignore(source: Source, start: int, line: int, text: str) -> Ignore | None:
    match = _COMMENT.match(text)
    if match is None:
        return None
    listed = None if match[2] is None else tuple(word.strip() for word in match[2].split(",") if word.strip())
    return Ignore(
        line=line,
        start=start,
        text=text,
        whole_file=match[1].lower() == "ignore-file",
        own_line=source.line(line).lstrip().startswith("#"),
        words=listed or None,
        reason=match[3].strip(" -:\t#"),
    )


def _statements(tree: ast.Module) -> list[tuple[int, int]]:
    """First and last line of every statement; of those with a body, the lines above it."""
    ranges = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            first = min([node.lineno, *(item.lineno for item in getattr(node, "decorator_list", ()))])
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            within = body[0] if isinstance(body, list) and body else None
            last = node.end_lineno or node.lineno
            if within is not None:
                below = within.pattern.lineno if isinstance(within, ast.match_case) else within.lineno
                last = max(node.lineno, below - 1)
            ranges.append((first, last))
    return ranges


def _lines(script: Script, finding: Finding, statements: list[tuple[int, int]], own: set[int]) -> set[int]:
    """The lines on which a comment is about a finding: those of its statement, and comments directly above."""
    if finding.place is None:
        return set()
    line = absolute_line(script.source, finding.place)
    around = [(last - first, first, last) for first, last in statements if first <= line <= last]
    _, first, last = min(around, default=(0, line, line))
    lines = set(range(first, last + 1))
    above = first - 1
    while above >= 1 and script.source.line(above).lstrip().startswith("#"):
        if above in own:
            lines.add(above)
        above -= 1
    return lines


def absolute_line(source: Source, place: Place) -> int:
    """A place's line in the whole text; in a notebook, places count from the top of their cell."""
    cell = next((cell for cell in source.cells if cell.number == place.cell), None)
    return place.line + (source.position(cell.start)[0] - 1 if cell else 0)


def _said(script: Script, ignore: Ignore, used: set[str], enabled: frozenset[str]) -> Iterator[Finding]:
    place = place_of(script, ignore.start, ignore.start + len(ignore.text))
    kind = "ignore-file" if ignore.whole_file else "ignore"
    if ignore.words is None:
        remedy = f"name them, and say why: # rlmem: {kind}[MEM101] reason"
        yield RULE.finding("this comment names no rule, and silences nothing", place=place, remedy=remedy)
        return
    if ignore.whole_file and not ignore.own_line:
        yield RULE.finding("'ignore-file' is at the end of a line of code", place=place, remedy="give it its own line")
    for word in ignore.words:
        code = _KNOWN.get(word.lower())
        if code is None:
            hint = did_you_mean(word, [*CODES, *CODES.values()])
            yield RULE.finding(f"there is no rule {word!r}{hint}", place=place, remedy="'rlmem rule' lists all")
        elif code in enabled and code not in used:
            title = f"{code} finds nothing here, with or without this comment"
            yield RULE.finding(title, severity="info", place=place, remedy=f"remove {word}")
    if not ignore.reason:
        remedy = f"say it behind the bracket: # rlmem: {kind}[{', '.join(ignore.words)}] reason"
        yield RULE.finding("this comment gives no reason", severity="info", place=place, remedy=remedy)


def _misspelt(script: Script, start: int, text: str) -> Iterator[Finding]:
    """``# rlmem: ingore[MEM204]``: something with a bracket that is not one of ours."""
    match = _WORD.match(text)
    if match and not _COMMENT.match(text):
        title = f"'rlmem: {match[1]}' is not known{did_you_mean(match[1], ('ignore', 'ignore-file'))}"
        yield RULE.finding(
            title, place=place_of(script, start, start + len(text)), remedy="write # rlmem: ignore[MEM101] reason"
        )


def place_of(script: Script, start: int, end: int) -> Place:
    """Characters of a script as a place; in a notebook, lines count from the top of the cell."""
    cell = script.source.cell_at(start)
    above = script.source.position(cell.start)[0] - 1 if cell else 0
    (line, column), (end_line, end_column) = script.source.position(start), script.source.position(end)
    return Place(
        path=script.path,
        line=line - above,
        column=column,
        end_line=end_line - above,
        end_column=end_column,
        cell=cell.number if cell else None,
    )
