"""The view of two sweeps side by side."""

from __future__ import annotations

from collections.abc import Iterable

from rlmem.core.points import values_text
from rlmem.documents.sweep_comparison import NameDifference, SweepComparisonDocument, SweepSide
from rlmem.report.compare import cells, device_table
from rlmem.report.sweep_view import fit_text
from rlmem.report.text import size
from rlmem.report.view import Column, Section, Table, View


def compare_sweeps_view(document: SweepComparisonDocument) -> View:
    """Return the pairs as tables."""
    sides = (document.left, document.right)
    lines = [f"{side.label}: {fit_text(line)}" for side in sides for line in side.fits]
    points = (
        (values_text(row.values) or "peak", *_cells(row.left_bytes, row.right_bytes, row.left_status, row.right_status))
        for row in document.points
    )
    tables = [_table("", "point", points)]
    where = f" at {values_text(document.at)}" if document.at else ""
    if document.phases:
        tables.append(_table(f"By phase{where}", "phase", _named(document.phases)))
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


def _table(title: str, word: str, rows: Iterable[tuple[str, ...]]) -> Table:
    columns = (
        Column(title=word, right=False),
        Column(title="left"),
        Column(title="right"),
        Column(title="difference"),
        Column(title="ratio"),
    )
    return Table(title=title, columns=columns, rows=tuple(rows))


def _named(rows: Iterable[NameDifference]) -> Iterable[tuple[str, ...]]:
    return ((row.name, *_cells(row.left_bytes, row.right_bytes)) for row in rows)


def _cells(
    left: int | None, right: int | None, left_status: str | None = None, right_status: str | None = None
) -> tuple[str, str, str, str]:
    if left is not None and right is not None:
        return cells(left, right)
    return _one(left, left_status), _one(right, right_status), "", ""


def _one(nbytes: int | None, status: str | None) -> str:
    """A side that was not measured there has an empty cell."""
    return size(nbytes, status or "")


def _versions(left: SweepSide, right: SweepSide) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys((*left.versions, *right.versions))
    rows = ((name, left.versions.get(name, ""), right.versions.get(name, "")) for name in names)
    return tuple(row for row in rows if row[1] != row[2])
