"""The view of two sweeps side by side."""

from __future__ import annotations

from rlmem.core.points import values_text
from rlmem.documents.sweep_comparison import SweepComparisonDocument, SweepSide
from rlmem.report.compare import device_table, maybe_cells, pair_columns, phases_table
from rlmem.report.sweep_view import fit_text
from rlmem.report.view import Column, Section, Table, View


def compare_sweeps_view(document: SweepComparisonDocument) -> View:
    """Return the pairs as tables."""
    sides = (document.left, document.right)
    lines = [f"{side.label}: {fit_text(line)}" for side in sides for line in side.fits]
    points = (
        (
            values_text(row.values) or "peak",
            *maybe_cells(row.left_bytes, row.right_bytes, row.left_status or "", row.right_status or ""),
        )
        for row in document.points
    )
    tables = [Table(title="", columns=pair_columns("point"), rows=tuple(points))]
    where = f" at {values_text(document.at)}" if document.at else ""
    if document.phases:
        tables.append(phases_table(document.phases, f"By phase{where}"))
    tables += [device_table(device, f"{device.device.upper()}{where}") for device in document.devices]
    changed = _versions(*sides)
    if changed:
        columns = (Column(title="version of", right=False), Column(title="left"), Column(title="right"))
        tables.append(Table(title="Versions that differ", columns=columns, rows=changed))
    return View(
        title=f"{sides[0].label}  ↔  {sides[1].label}",
        verdict=(),
        sections=(Section(title="Side by side", lines=tuple(lines), tables=tuple(tables)),),
        notes=("Measured peaks of the process tree. GiB is 2³⁰ bytes.",),
    )


def _versions(left: SweepSide, right: SweepSide) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys((*left.versions, *right.versions))
    rows = ((name, left.versions.get(name, ""), right.versions.get(name, "")) for name in names)
    return tuple(row for row in rows if row[1] != row[2])
