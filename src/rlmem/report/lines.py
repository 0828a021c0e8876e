"""Plain lines of text in a terminal: parted at words and never within a number, each under the first."""

from __future__ import annotations

import os
from typing import TextIO

from rlmem.report.layout import wrap

#: A narrower terminal is left to part lines itself.
NARROWEST = 20


def text_width(stream: TextIO) -> int | None:
    """Columns of a terminal, or as many as ``COLUMNS`` says; None for pipes and files, whose lines are whole."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said) >= NARROWEST:
        return int(said)
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return None
    return width if width >= NARROWEST else None


def hanging(lead: str, text: str, width: int | None) -> str:
    """A text behind its lead, parted at words to a width, the other lines under the first.

    >>> print(hanging("rlmem: ", "peak 1.72 GiB, 92% of the 1.86 GiB", 24))
    rlmem: peak 1.72 GiB,
           92% of the
           1.86 GiB
    """
    if width is None:
        return f"{lead}{text}"
    return lead + f"\n{' ' * len(lead)}".join(wrap(text, width - len(lead)))


def shortened(text: str, most: int) -> str:
    """A command in so many letters.

    >>> shortened("python train.py --seed 1", 16)
    'python train.py…'
    """
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
