"""The view of the list of stored runs."""

from __future__ import annotations

from rlmem.documents.runs import RunRow, RunsDocument
from rlmem.report.table import Cell, make_table
from rlmem.report.view import Column, Section, View
from rlmem.units import format_size

_COLUMNS: tuple[Cell[RunRow], ...] = (
    (Column(title="run", right=False), lambda run: run.id),
    (Column(title="kind", right=False), lambda run: run.kind),
    (Column(title="target", right=False), lambda run: run.target),
    (Column(title="started (UTC)", right=False, rank=2), lambda run: run.started[:16].replace("T", " ")),
    (Column(title="status", right=False), lambda run: run.status),
    (Column(title="points", rank=4), lambda run: str(run.points or "")),
    (Column(title="largest peak"), lambda run: "" if run.peak_bytes is None else format_size(run.peak_bytes)),
)


def runs_view(document: RunsDocument) -> View:
    """Return the runs as a table."""
    none = "none yet: 'rlmem measure', 'rlmem bench' and 'rlmem run' keep theirs here"
    section = Section(
        title="Runs",
        lines=() if document.runs else (none,),
        tables=(make_table(_COLUMNS, document.runs),) if document.runs else (),
    )
    return View(title="rlmem runs", verdict=(), sections=(section,), notes=(f"kept in {document.store}",))
