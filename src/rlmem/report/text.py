"""Words that several views share."""

from __future__ import annotations

from rlmem.units import format_size

#: What stands for a number that nobody knows; a cell is empty where there is nothing to know.
UNKNOWN = "unknown"


def size(nbytes: int | None, otherwise: str = UNKNOWN) -> str:
    """Return a size as text, and ``otherwise`` where there is none: empty for what cannot have one."""
    return otherwise if nbytes is None else format_size(nbytes)
