"""Words that several views share."""

from __future__ import annotations

from rlmem.units import format_size


def size(nbytes: int | None, unknown: str = "unknown") -> str:
    """Return a size as text; ``unknown`` where it is not known."""
    return unknown if nbytes is None else format_size(nbytes)
