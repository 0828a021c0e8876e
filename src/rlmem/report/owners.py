"""What tables of owners share: those of a process and those of the processes of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from rlmem.documents.parts import HoldingPart, PortionPart
from rlmem.report.text import UNKNOWN
from rlmem.units import format_size


def resident_text(holding: HoldingPart) -> str:
    """Return what an owner holds; ``~`` stands before an estimate from a sample."""
    return f"{_mark(holding)}{format_size(holding.resident_bytes)}"


def allocated_text(holding: HoldingPart) -> str:
    """Return what an owner has allocated; ``~`` stands before an estimate from a sample."""
    return f"{_mark(holding)}{format_size(holding.nbytes)}"


def growth_text(holding: HoldingPart) -> str:
    """Return what an owner will still take: ``unknown`` where no end is known, nothing where it will not grow."""
    if holding.growth_bytes is None:
        return UNKNOWN
    return format_size(holding.growth_bytes) if holding.growth_bytes else ""


def rest_of(portions: Sequence[PortionPart], unexplained_bytes: int | None) -> list[tuple[str, int]]:
    """Return the names and sizes of what has no owner: memory by class, and what is left where that is known."""
    rest = [(f"({portion.name})", portion.resident_bytes) for portion in portions]
    return rest if unexplained_bytes is None else [*rest, ("unexplained", unexplained_bytes)]


def _mark(holding: HoldingPart) -> str:
    return "~" if holding.estimated else ""
