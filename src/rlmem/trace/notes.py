"""Notes of a dry run, each once: what is said several times with other numbers is one note with a range."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Counts and shares; not what is part of a name, such as the line of a file or a version.
_NUMBER = re.compile(r"(?<![\w:.,/-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w.]*\w)")


def merge_notes(notes: Sequence[str]) -> list[str]:
    """The notes in their order, those that differ in numbers alone as one.

    >>> merge_notes(["1731 of 2048 steps were made", "files were put back", "905 of 2048 steps were made"])
    ['905–1731 of 2048 steps were made', 'files were put back']
    >>> merge_notes(["a.py:3 is read", "a.py:7 is read"])
    ['a.py:3 is read', 'a.py:7 is read']
    """
    groups: dict[str, list[str]] = {}
    for note in notes:
        groups.setdefault(_NUMBER.sub("\0", note), []).append(note)
    return [_merged(same) for same in groups.values()]


def _merged(notes: Sequence[str]) -> str:
    columns = iter(list(zip(*(_NUMBER.findall(note) for note in notes), strict=True)))
    return _NUMBER.sub(lambda _: _range(next(columns)), notes[0])


def _range(numbers: Sequence[str]) -> str:
    ordered = sorted(set(numbers), key=lambda number: float(number.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}"
