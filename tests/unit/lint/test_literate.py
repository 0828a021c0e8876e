"""What each rule finds in scripts, and what it leaves alone: one Markdown file per rule in ``tests/lint``.

The format is described in CONTRIBUTING.md, "Writing a rule".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rlmem.core.edits import apply, overlap
from rlmem.core.findings import Finding
from rlmem.lint.linter import Linter
from rlmem.rules import find_in_script, rules
from rlmem.scripts import read_script

PAGES = tuple(sorted((Path(__file__).parents[2] / "lint").glob("MEM*.md")))
ROUNDS = 5
_FENCE = re.compile(r"^```(\w*)[ \t]*(.*?)[ \t]*\n(.*?)^```[ \t]*$", re.M | re.S)
_HEADING = re.compile(r"^#+ +(.*)$", re.M)
_EXPECT = re.compile(r"[ \t]*# expect: *(MEM\d{3}(?:, *MEM\d{3})*)[ \t]*$")


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """One block of Python, the files that stand beside it, and what it says of itself."""

    page: Path
    line: int
    heading: str
    path: str
    text: str
    beside: dict[str, str] = field(default_factory=dict)
    fixed: str | None = None

    @property
    def expected(self) -> list[tuple[int, str]]:
        """Lines and codes, one for each expected finding."""
        return sorted(
            (number, code.strip())
            for number, line in enumerate(self.text.splitlines(), 1)
            if (match := _EXPECT.search(line))
            for code in match[1].split(",")
        )

    def named(self, number: int) -> str:
        """A line of the snippet as a line of its page."""
        lines = self.text.splitlines()
        text = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return f"{self.page.name}:{self.line + number}: {text}"


def snippets(page: Path) -> Iterator[Snippet]:
    """The Python blocks of a page; those with ``file=`` stand beside the others under the same heading."""
    text = page.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    inside = [(fence.start(), fence.end()) for fence in fences]
    headings = [h for h in _HEADING.finditer(text) if not any(start <= h.start() < end for start, end in inside)]
    for number, start in enumerate([0, *(h.start() for h in headings)]):
        end = headings[number].start() if number < len(headings) else len(text)
        title = headings[number - 1][1] if number else ""
        yield from _section(page, text, title, [fence for fence in fences if start <= fence.start() < end])


def _section(page: Path, text: str, title: str, fences: list[re.Match[str]]) -> Iterator[Snippet]:
    files = {name: fence[3] for fence in fences if (name := _file(fence[2]))}
    waiting: Snippet | None = None
    for fence in fences:
        line = text.count("\n", 0, fence.start()) + 1
        if fence[1] != "py":
            continue
        if fence[2] == "fixed":
            assert waiting is not None, f"{page.name}:{line}: 'fixed' follows no block"
            yield replace(waiting, fixed=fence[3])
            waiting = None
            continue
        if waiting is not None:
            yield waiting
        path = _file(fence[2])
        assert path or not fence[2], f"{page.name}:{line}: unknown words {fence[2]!r} after ```py"
        waiting = Snippet(page=page, line=line, heading=title, path=path or "train.py", text=fence[3], beside=files)
    if waiting is not None:
        yield waiting


def _file(words: str) -> str:
    return words.removeprefix("file=").strip() if words.startswith("file=") else ""


SNIPPETS = tuple(snippet for page in PAGES for snippet in snippets(page))


def found_in(snippet: Snippet, folder: Path, text: str | None = None) -> tuple[Finding, ...]:
    """What all script rules say about a snippet, with its neighbours on disk."""
    for name, content in {**snippet.beside, snippet.path: snippet.text if text is None else text}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    path = folder / snippet.path
    return find_in_script(read_script(path))


@pytest.mark.parametrize("snippet", SNIPPETS, ids=[f"{s.page.stem}:{s.line}" for s in SNIPPETS])
def test_a_snippet_is_found_where_it_says_and_nowhere_else(snippet: Snippet, tmp_path: Path) -> None:
    findings = found_in(snippet, tmp_path)
    unplaced = [finding for finding in findings if finding.place is None]
    assert not unplaced, f"findings on a script without a place: {unplaced}"
    found = sorted((f.place.line, f.code) for f in findings if f.place)
    titles = {(f.place.line, f.code): f.title for f in findings if f.place}
    expected = snippet.expected
    missing = [f"not found: {code} at {snippet.named(line)}" for line, code in _less(expected, found)]
    extra = [
        f"not expected: {code} at {snippet.named(line)}\n    {titles[line, code]}"
        for line, code in _less(found, expected)
    ]
    assert not missing + extra, "\n".join((f"under {snippet.heading!r}", *missing, *extra))


def _less(some: list[tuple[int, str]], others: list[tuple[int, str]]) -> list[tuple[int, str]]:
    left = list(others)
    return [item for item in some if not (item in left and not left.remove(item))]


def test_lint_looks_into_every_file_that_has_something_to_find() -> None:
    unseen = [snippet.named(1) for snippet in SNIPPETS if snippet.expected and not Linter.relevant(snippet.text)]
    assert not unseen, f"none of the words of rlmem.lint.linter.WORDS stands there: {unseen}"


@pytest.mark.parametrize(
    "snippet",
    [s for s in SNIPPETS if s.fixed is not None],
    ids=[f"{s.page.stem}:{s.line}" for s in SNIPPETS if s.fixed is not None],
)
def test_the_fixes_of_a_snippet_give_the_text_that_follows_it(snippet: Snippet, tmp_path: Path) -> None:
    text = snippet.text
    for _ in range(ROUNDS):
        taken: list[Finding] = []
        for finding in found_in(snippet, tmp_path, text):
            edits = [edit for other in taken if other.fix for edit in other.fix.edits]
            if finding.fix and not overlap(finding.fix.edits, edits):
                taken.append(finding)
        if not taken:
            break
        text = apply(text, [edit for finding in taken if finding.fix for edit in finding.fix.edits])
    else:
        pytest.fail(f"{snippet.named(1)}: still changing after {ROUNDS} rounds:\n{text}")
    assert text != snippet.text, f"{snippet.named(1)}: no finding has a fix"
    assert _bare(text) == _bare(snippet.fixed or "")


def _bare(text: str) -> list[str]:
    return [_EXPECT.sub("", line) for line in text.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_a_page_shows_what_its_rule_finds_and_several_things_it_leaves_alone(page: Path) -> None:
    code = page.name[:6]
    own = [snippet for snippet in SNIPPETS if snippet.page == page]
    assert any(code in {found for _, found in snippet.expected} for snippet in own), f"no '# expect: {code}'"
    assert sum(not snippet.expected for snippet in own) >= 2, "fewer than two blocks that must stay silent"


def test_every_rule_about_scripts_has_a_page_named_after_it() -> None:
    wanted = {f"{rule.code}-{rule.name}" for rule in rules() if "script" in rule.subjects}
    assert {page.stem for page in PAGES} == wanted
