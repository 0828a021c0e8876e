"""Patterns for paths, as ``exclude`` and ``per-file-ignores`` use them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

_PIECES = re.compile(r"\*\*/|\*\*|\*|\?|\[[^\]]+\]")
_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a relative path, or a folder it is in, is one that some pattern names.

    >>> matches("examples/old/train.py", ["examples"]), matches("src/train.py", ["*.py"])
    (True, True)
    >>> matches("src/a/train.py", ["src/*.py"]), matches("src/a/train.py", ["src/**/*.py"])
    (False, True)
    """
    parts = path.split("/")
    for pattern in patterns:
        wanted = pattern.removeprefix("./").rstrip("/")
        ends = ("/".join(parts[: count + 1]) for count in range(len(parts)))
        expression = _expression(wanted.lstrip("/"))
        if any(map(expression.fullmatch, ends if "/" in wanted else parts)):
            return True
    return False


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """``**`` stands for any folders, ``*`` and ``?`` for anything within one name."""
    parts, done = [], 0
    for piece in _PIECES.finditer(pattern):
        parts.append(re.escape(pattern[done : piece.start()]))
        found = piece.group()
        parts.append(_MEANING.get(found) or found.replace("[!", "[^").replace("\\", "\\\\"))
        done = piece.end()
    parts.append(re.escape(pattern[done:]))
    try:
        return re.compile("".join(parts), re.S)
    except re.error:  # "[z-a]" is a range that is none: taken as it is written
        return re.compile(re.escape(pattern))
