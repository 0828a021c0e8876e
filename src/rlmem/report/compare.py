"""The view of two plans side by side."""

from __future__ import annotations

from rlmem.documents.comparison import ComparisonDocument, DeviceDifference
from rlmem.report.view import Column, Section, Table, View, setting_text
from rlmem.units import format_size


def compare_view(document: ComparisonDocument) -> View:
    """The diff as tables."""
    sides = (document.left, document.right)
    lines = tuple(f"{side.label}: {text}" for side in sides for text in side.summary)
    tables = []
    if document.settings:
        rows = tuple((row.path, setting_text(row.left), setting_text(row.right)) for row in document.settings)
        columns = (Column(title="setting", right=False), Column(title="left"), Column(title="right"))
        tables.append(Table(title="Settings that differ", columns=columns, rows=rows))
    tables += [_table(device) for device in document.devices]
    title = f"{sides[0].label}  ↔  {sides[1].label}"
    return View(
        title=title,
        verdict=(),
        sections=(Section(title="Side by side", lines=lines, tables=tuple(tables)),),
        notes=("Each side at its own peak. GiB is 2³⁰ bytes.",),
    )


def _table(device: DeviceDifference) -> Table:
    changed = [row for row in device.components if row.left_bytes != row.right_bytes]
    same = [row for row in device.components if row.left_bytes == row.right_bytes]
    rows = [(row.component, *cells(row.left_bytes, row.right_bytes)) for row in changed]
    if same:
        total = sum(row.left_bytes for row in same)
        rows.append((f"{len(same)} equal", format_size(total), format_size(total), "", ""))
    rows.append(("total", *cells(device.left_bytes, device.right_bytes)))
    columns = (
        Column(title="component", right=False),
        Column(title=f"left, in {device.left_phase}"),
        Column(title=f"right, in {device.right_phase}"),
        Column(title="difference"),
        Column(title="ratio"),
    )
    return Table(title=device.device.upper(), columns=columns, rows=tuple(rows), footers=1)


def cells(left: int, right: int) -> tuple[str, str, str, str]:
    """Left, right, difference and ratio."""
    difference = right - left
    sign = "+" if difference > 0 else ""
    ratio = f"{right / left:.2f}×" if left else ""
    return format_size(left), format_size(right), f"{sign}{format_size(difference)}", ratio
