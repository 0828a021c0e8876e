"""The view of two ledgers side by side."""

from __future__ import annotations

from collections.abc import Sequence

from rlmem.documents.comparison import ComparisonDocument, DeviceDifference, PhaseDifference, SidePart
from rlmem.report.text import UNKNOWN, size
from rlmem.report.view import Column, Section, Table, View, setting_text
from rlmem.units import format_size


def compare_view(document: ComparisonDocument) -> View:
    """Return the settings and components that differ, as tables."""
    sides = (document.left, document.right)
    lines = tuple(f"{side.label}: {text}" for side in sides for text in side.summary)
    tables = []
    if document.settings:
        rows = tuple((row.path, setting_text(row.left), setting_text(row.right)) for row in document.settings)
        columns = (Column(title="setting", right=False), Column(title="left"), Column(title="right"))
        tables.append(Table(title="Settings that differ", columns=columns, rows=rows))
    differ = sides[0].source != sides[1].source
    sources = tuple(f" {side.source}" if differ else "" for side in sides)
    tables += [device_table(device, device.device.upper(), sources) for device in document.devices]
    title = f"{sides[0].label}  ↔  {sides[1].label}"
    return View(
        title=title,
        verdict=(),
        sections=(Section(title="Side by side", lines=lines, tables=tuple(tables)),),
        notes=(_note(sides),),
    )


def _note(sides: tuple[SidePart, SidePart]) -> str:
    if all(side.source == "predicted" for side in sides):
        return "Each side at its own peak. GiB is 2³⁰ bytes."
    return (
        "A process is shown at the moment of the command, and a plan beside it in the same phase. Every other run is shown at "
        "its peak. 'unknown': the measurement has no such component; its bytes can be part of 'unexplained'. GiB is 2³⁰ bytes."
    )


def device_table(device: DeviceDifference, title: str, sources: Sequence[str] = ("", "")) -> Table:
    """Return the components of a device that differ, and the sum of the others; ``sources`` are said beside the sides."""
    changed = [row for row in device.components if row.left_bytes != row.right_bytes]
    same = [row for row in device.components if row.left_bytes == row.right_bytes]
    rows = [(row.component, *maybe_cells(row.left_bytes, row.right_bytes)) for row in changed]
    if same:
        total = sum(row.left_bytes or 0 for row in same)
        rows.append((f"{len(same)} equal", format_size(total), format_size(total), "", ""))
    rows.append(("total", *maybe_cells(device.left_bytes, device.right_bytes)))
    beside = [
        source + (f", in {phase}" if phase else "")
        for source, phase in zip(sources, (device.left_phase, device.right_phase), strict=True)
    ]
    return Table(title=title, columns=pair_columns("component", *beside), rows=tuple(rows), footers=1)


def phases_table(phases: Sequence[PhaseDifference], title: str) -> Table:
    """Return the phases of both sides; a cell is empty where a side was never in a phase."""
    rows = tuple(
        (row.phase or "outside of training", *maybe_cells(row.left_bytes, row.right_bytes, "", "")) for row in phases
    )
    return Table(title=title, columns=pair_columns("phase"), rows=rows)


def pair_columns(word: str, left: str = "", right: str = "") -> tuple[Column, ...]:
    """Return the columns of a table of pairs; ``left`` and ``right`` are said beside the sides."""
    return (
        Column(title=word, right=False),
        Column(title=f"left{left}"),
        Column(title=f"right{right}"),
        Column(title="difference"),
        Column(title="ratio"),
    )


def maybe_cells(
    left: int | None, right: int | None, no_left: str = UNKNOWN, no_right: str = UNKNOWN
) -> tuple[str, str, str, str]:
    """Return left, right, difference and ratio; what stands for no size is compared with nothing."""
    if left is not None and right is not None:
        return cells(left, right)
    return size(left, no_left), size(right, no_right), "", ""


def cells(left: int, right: int) -> tuple[str, str, str, str]:
    """Return left, right, difference and ratio."""
    difference = right - left
    sign = "+" if difference > 0 else ""
    ratio = f"{right / left:.2f}×" if left else ""
    return format_size(left), format_size(right), f"{sign}{format_size(difference)}", ratio
