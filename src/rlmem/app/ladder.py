"""Measure every version of the swarm's algorithm beside its plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from rlmem.documents.ladder import LadderDocument, LadderPointPart, LadderRowPart
from rlmem.documents.parts import part_of
from rlmem.programs.swarm_ladder import Line, Row, measure
from rlmem.runner.facts import machine_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRequest:
    """What is measured, with which interpreter and within which bounds."""

    rows: tuple[Row, ...]
    python: str | None = None
    cap_bytes: int | None = None
    timeout_s: float | None = None

    @property
    def points(self) -> int:
        """How many processes that takes."""
        return sum(len(row.sizes) for row in self.rows)


def measure_ladder(request: LadderRequest, tell: Callable[[str], None]) -> LadderDocument:
    """Measure each point in a fresh process, one after the other.

    Args:
        request: the rows and their bounds.
        tell: called with a line about each point when it is done.

    Raises:
        UsageError: the interpreter lacks torch or rlmem.
    """
    load = os.getloadavg()[0]
    lines = measure(
        request.rows, tell, python=request.python, cap_bytes=request.cap_bytes, time_limit_s=request.timeout_s
    )
    done = tuple(lines)
    machine = {**machine_facts(), "threads": os.environ.get("OMP_NUM_THREADS"), "load": load}
    return ladder_document(done, machine, date.today().isoformat())


def ladder_document(lines: Sequence[Line], machine: Mapping[str, Any], today: str) -> LadderDocument:
    """Return the measured ladder as a document."""
    return LadderDocument(
        date=today,
        machine=dict(machine),
        versions=next((point.versions for line in lines for point in line.points if point.versions), {}),
        rows=tuple(_row_part(line) for line in lines),
    )


def _row_part(line: Line) -> LadderRowPart:
    row = line.row
    return LadderRowPart(
        rung=row.rung.name,
        title=row.rung.title,
        variant=row.variant or None,
        encoding=row.encoding,
        ae_share=row.ae_share,
        chunk=None if row.rung.whole_batch else row.chunk,
        lossless=row.rung.lossless,
        stored_per_agent_bytes=line.stored_per_agent,
        planned_per_agent_bytes=line.planned_per_agent,
        peak_per_agent_bytes=line.peak_per_agent,
        seconds=line.seconds,
        error=line.error,
        points=tuple(part_of(LadderPointPart, point) for point in line.points),
    )
