"""Two recorded runs side by side, as sentences and tables."""

from __future__ import annotations

from collections.abc import Sequence

from rlmem.documents.recorded_comparison import OwnerRow, RecordedComparisonDocument, RecordedSide
from rlmem.report.compare import maybe_cells, pair_columns, phases_table
from rlmem.report.view import Section, Table, View
from rlmem.units import format_duration


def compare_recorded_view(document: RecordedComparisonDocument) -> View:
    """Sentences of both, and their owners and phases as tables."""
    sides = (document.left, document.right)
    lines = [f"{side.label}: {text}" for side in sides for text in side.summary]
    lines += [f"{side.label}: owners are not known" for side in sides if side.owners_at_s is None]
    tables = []
    if document.owners:
        tables.append(_owners_table(document.owners, sides))
    if document.phases:
        tables.append(phases_table(document.phases, "Largest by phase"))
    return View(
        title="  ↔  ".join(_title(side) for side in sides),
        verdict=(),
        sections=(Section(title="Side by side", lines=tuple(lines), tables=tuple(tables)),),
        notes=("RAM of the process tree, each side at its own peak. GiB is 2³⁰ bytes.",),
    )


def _title(side: RecordedSide) -> str:
    return f"{side.label} ({side.target})" if side.target else side.label


def _owners_table(owners: Sequence[OwnerRow], sides: tuple[RecordedSide, RecordedSide]) -> Table:
    total = OwnerRow(path="peak", left_bytes=sides[0].peak_bytes, right_bytes=sides[1].peak_bytes)
    return Table(
        title="Who held the peak",
        columns=pair_columns("owner", *(f", in {side.phase}" if side.phase else "" for side in sides)),
        rows=tuple((row.path, *maybe_cells(row.left_bytes, row.right_bytes)) for row in (*owners, total)),
        footers=1,
        note="\n".join(text for side in sides if (text := _asked(side))),
    )


def _asked(side: RecordedSide) -> str:
    if side.owners_at_s is None or side.at_s is None:
        return ""
    away = abs(side.owners_at_s - side.at_s)
    return f"{side.label}: owners were asked {format_duration(away)} from the peak." if away >= 1 else ""
