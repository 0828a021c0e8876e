"""Changes to a text: replacements by offset, kept small so that comments and formatting around them survive."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff

#: safe: the program does the same with less memory; unsafe: it may behave differently, so that somebody should look.
SAFETIES = ("safe", "unsafe")
#: What a patch calls a line; what else ends one for Python stands within it.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ESCAPES = {ord(letter): f"\\{name}" for letter, name in zip('\a\b\t\n\v\f\r"\\', 'abtnvfr"\\', strict=True)}


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
    old, new = (_quoted(f"{side}/{path.lstrip('/')}") for side in "ab")
    lines = unified_diff(_LINE.findall(before), _LINE.findall(after), old, new, n=3)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _quoted(name: str) -> str:
    """A name as git writes it in a patch: quoted when it has characters that would end or bend the line."""
    if not re.search(r'[\x00-\x1f"\\\x7f\ud800-\udfff]', name):
        return f"{name}\t" if " " in name else name  # the tab says that the name ends there
    # Bytes of a name that are no UTF-8 are these surrogates in Python; other surrogates are Windows' own.
    escaped = ((c, "surrogateescape" if "\udc80" <= c <= "\udcff" else "surrogatepass") for c in name)
    data = b"".join(c.encode("utf-8", errors) for c, errors in escaped)
    written = (_ESCAPES.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in data)
    return f'"{"".join(written)}"'
