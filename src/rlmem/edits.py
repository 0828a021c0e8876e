"""Changes to a text: replacements by offset, kept small so that comments and formatting around them survive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff

#: safe: the program does the same with less memory; unsafe: it may behave differently, so that somebody should look.
SAFETIES = ("safe", "unsafe")


class OverlapError(ValueError):
    """Two edits that want to replace the same characters."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Edit:
    """Characters ``start`` to ``end`` of a text become ``text``; an insertion when both are equal."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """Edits that belong together: all of them or none."""

    title: str
    edits: tuple[Edit, ...]
    safety: str = "safe"


def overlap(edits: Iterable[Edit], others: Iterable[Edit]) -> bool:
    """Whether two groups of edits touch the same characters; the same insertion twice is one and the same."""
    others = tuple(others)
    return any(_touch(edit, other) for edit in edits for other in others if edit != other)


def _touch(one: Edit, other: Edit) -> bool:
    if one.start == one.end == other.start == other.end:
        return False  # two insertions at one place stand one after the other
    return one.start < other.end and other.start < one.end


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made; an edit that is given twice is made once.

    >>> apply("a = 1\\n", [Edit(start=4, end=5, text="2")])
    'a = 2\\n'
    """
    parts, done = [], 0
    for edit in sorted(set(edits)):
        if edit.start < done:
            raise OverlapError(f"two changes at character {edit.start}")
        parts += [text[done : edit.start], edit.text]
        done = edit.end
    return "".join((*parts, text[done:]))


def diff(path: str, before: str, after: str) -> str:
    """A unified diff that ``git apply`` and ``patch -p1`` take; empty when nothing changed."""
    lines = unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}", n=3
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
