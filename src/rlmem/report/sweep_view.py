"""A sweep arranged for reading: predicted beside measured, the cost per unit, a plot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from rlmem.core.ledger import PHASES
from rlmem.core.line_fit import LineFit
from rlmem.core.points import PointProcess, value_text, values_text
from rlmem.documents.sweep import MeasuredComponent, SweepDocument, SweepRow
from rlmem.report.plan import phase_column
from rlmem.report.plot import plot
from rlmem.report.table import Cell, make_table
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_count, format_size

#: More plots than this would bury the numbers.
_PLOTS = 3
_MARKS = {
    "●": "measured",
    "○": "predicted",
    "×": "did not end, drawn at the cap",
    "·": "line through the measured points",
}


def sweep_view(document: SweepDocument) -> View:
    """What ``rlmem measure`` shows."""
    sections = [Section(title="Measured", tables=(points_table(document),))]
    costs = _cost_sections(document)
    detail = [
        table
        for table in (_phase_table(document), _component_table(document), _process_table(document))
        if table is not None
    ]
    if detail:
        sections.append(Section(title="Where it goes", tables=tuple(detail)))
    return View(
        title=_title(document), verdict=_verdict(document), sections=(*sections, *costs), notes=_notes(document)
    )


def _title(document: SweepDocument) -> str:
    run = f" (run {document.run})" if document.run else ""
    return f"{document.target}: measured in fresh processes{run}"


def _verdict(document: SweepDocument) -> tuple[tuple[str, str], ...]:
    rows = document.rows
    lines = []
    stopped = [row for row in rows if row.status != "ok"]
    if stopped:
        told = len(stopped) == 1  # the notes of several are in the table
        named = "; ".join(_ending(row, told) for row in stopped[:3]) + ("; …" if len(stopped) > 3 else "")
        lines.append((f"{len(stopped)} of {len(rows)} points did not end well: {named}", "bad"))
    if document.status == "interrupted":
        asked = document.repeat
        for axis in document.axes:
            asked *= len(axis.values)
        lines.append((f"interrupted: {len(document.points)} of {asked} points measured", "warn"))
    measured = [row for row in rows if row.measured_bytes is not None]
    errors = [(row.error, row) for row in measured if row.error is not None]
    over = [row for _, row in errors if row.is_over]
    tone = "warn" if over else "good"
    if len(rows) == 1 and measured:
        (row,) = measured
        lines.append((f"RAM peak {_size(row.measured_bytes)} measured{_beside(row)}", tone))
    elif errors:
        most, worst = max(errors, key=lambda pair: abs(pair[0]))
        middle = median(abs(error) for error, _ in errors)
        text = f"predictions are {middle:.1%} off in the median, {most:+.1%} at worst ({values_text(worst.values)})"
        lines.append((f"{_points(len(measured))} measured; {text}", tone))
    elif measured:
        lines.append((f"{_points(len(measured))} measured", "good"))
    if over and len(rows) > 1:
        lines.append((f"above the upper bound of the prediction: {', '.join(_where(row) for row in over[:3])}", "warn"))
    return tuple(lines)


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"


def _where(row: SweepRow) -> str:
    return values_text(row.values) or "the only point"


def _ending(row: SweepRow, told: bool) -> str:
    where = f" at {values_text(row.values)}" if row.values else ""
    return f"{row.status}{where}" + (f" ({row.note})" if told and row.note else "")


def _beside(row: SweepRow) -> str:
    if row.error is None or row.predicted is None:
        return ""
    inside = ", above its upper bound" if row.is_over else ""
    return f"; predicted {format_size(row.predicted.expected)} ({row.error:+.1%}){inside}"


def points_table(document: SweepDocument) -> Table:
    """One row per combination of values."""
    rows = document.rows
    predicted = any(row.predicted for row in rows)
    repeated = any(row.ok_runs > 1 for row in rows)
    shared = _shared_note(rows)
    columns: list[Cell[SweepRow]] = [(Column(title=axis.name), partial(_value, axis.name)) for axis in document.axes]
    if predicted:
        columns += [
            (Column(title="predicted low", rank=2), lambda row: _size(row.predicted.low if row.predicted else None)),
            (Column(title="expected"), lambda row: _size(row.predicted.expected if row.predicted else None)),
            (Column(title="high", rank=2), lambda row: _size(row.predicted.high if row.predicted else None)),
        ]
    columns.append((Column(title="measured", strong=True), _measured))
    if repeated:
        columns += [
            (Column(title="spread", rank=1), _spread),
            (Column(title="runs", rank=3), lambda row: f"{row.ok_runs} of {row.runs}"),
        ]
    if predicted:
        columns.append((Column(title="error"), lambda row: "" if row.error is None else _percent(row.error)))
    if any(row.vram for row in rows):
        columns += [
            (Column(title="VRAM of torch", rank=2), lambda row: _size(row.vram.get("reserved"))),
            (Column(title="of the process"), lambda row: _size(row.vram.get("process"))),
        ]
    if any(row.nodes for row in rows):
        columns.append((Column(title="node", right=False, rank=3), lambda row: ", ".join(row.nodes)))
    columns += [
        (Column(title="time", rank=4), lambda row: f"{row.wall_s:.1f} s"),
        (Column(title="status", right=False), lambda row: row.status),
    ]
    if any(row.note for row in rows) and not shared:
        columns.append((Column(title="note", right=False), lambda row: row.note))
    remarks = [shared, "measured: the median of what ended well; spread: least to most" if repeated else ""]
    return make_table(columns, rows, note="\n".join(text for text in remarks if text))


def _value(axis: str, row: SweepRow) -> str:
    return value_text(row.values.get(axis, ""))


def _shared_note(rows: Sequence[SweepRow]) -> str:
    """What every row says is said once, under the table."""
    notes = {row.note for row in rows}
    return notes.pop() if len(notes) == 1 and all(row.status == "ok" for row in rows) else ""


def _size(value: int | None) -> str:
    return "" if value is None else format_size(value)


def _percent(share: float) -> str:
    return "0.0%" if abs(share) < 0.0005 else f"{share:+.1%}"


def _measured(row: SweepRow) -> str:
    if row.measured_bytes is None and row.status == "oom" and row.reached_bytes is not None:
        return f"over {format_size(row.reached_bytes)}"
    return _size(row.measured_bytes)


def _spread(row: SweepRow) -> str:
    if row.ok_runs < 2 or row.least_bytes is None or row.most_bytes is None or not row.measured_bytes:
        return ""
    width = (row.most_bytes - row.least_bytes) / row.measured_bytes
    return f"{format_size(row.least_bytes)} – {format_size(row.most_bytes)} ({width:.1%})"


def _phase_table(document: SweepDocument) -> Table | None:
    rows = [row for row in document.rows if row.phases]
    seen = {name for row in rows for name in row.phases}
    phases = [name for name in PHASES if name in seen] + sorted(seen - set(PHASES))
    if not phases:
        return None
    drawn = tuple(
        (_where(row) if row.values else "peak", *(_size(row.phases.get(name)) for name in phases)) for row in rows
    )
    columns = (Column(title="point", right=False), *(phase_column(name) for name in phases))
    return Table(title="Peak by phase", columns=columns, rows=drawn)


def _component_table(document: SweepDocument) -> Table | None:
    """Of the largest point that has components: they say most where they are large."""
    rows = [row for row in document.rows if row.components and row.measured_bytes is not None]
    if not rows:
        return None
    largest = max(rows, key=lambda row: row.measured_bytes or 0)
    columns: tuple[Cell[MeasuredComponent], ...] = (
        (Column(title="component", right=False), lambda part: part.component),
        (Column(title="predicted"), lambda part: _size(part.predicted_bytes)),
        (Column(title="measured"), lambda part: _size(part.measured_bytes)),
        (Column(title="error"), lambda part: "" if part.error is None else _percent(part.error)),
    )
    where = f" at {values_text(largest.values)}" if largest.values else ""
    return replace(make_table(columns, largest.components), title=f"By component{where}")


def _process_table(document: SweepDocument) -> Table | None:
    """Of the largest point with more than one process, by role."""
    points = [point for point in document.points if len(point.processes) > 1 and point.peak_bytes is not None]
    if not points:
        return None
    largest = max(points, key=lambda point: point.peak_bytes or 0)
    roles: dict[str, list[PointProcess]] = {}
    for process in largest.processes:
        roles.setdefault(process.role, []).append(process)
    drawn = tuple(
        (
            role,
            str(len(group)),
            _size(_sum(process.bytes_at_peak for process in group)),
            _size(max((process.hwm_bytes for process in group if process.hwm_bytes is not None), default=None)),
        )
        for role, group in roles.items()
    )
    whole = _sum(process.bytes_at_peak for process in largest.processes)
    together = ("total", str(len(largest.processes)), _size(whole), "")
    columns = (
        Column(title="process", right=False),
        Column(title="count"),
        Column(title="together, at the peak"),
        Column(title="largest VmHWM"),
    )
    where = f" at {values_text(largest.values)}" if largest.values else ""
    note = "VmHWM counts shared pages in every process; the sum at the peak does not."
    return Table(title=f"Per process{where}", columns=columns, rows=(*drawn, together), note=note)


def _sum(sizes: Iterable[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _cost_sections(document: SweepDocument) -> tuple[Section, ...]:
    sections = []
    planned = document.fits.predicted
    for index, line in enumerate(document.fits.measured):
        held = f" at {values_text(line.held)}" if line.held else ""
        along = " and ".join(term.axis for term in line.terms)
        lines = [f"measured: {fit_text(line)}"]
        twin = next((other for other in planned if _same_axes(line, other)), None)
        if twin is not None:
            lines.append(f"predicted: {fit_text(twin, margins=False)}")
        lines += fit_remarks(line)
        figure = _figure(document, line) if index < _PLOTS else ()
        sections.append(Section(title=f"Cost of {along}{held}", lines=tuple(lines), figure=figure))
    return tuple(sections)


def _same_axes(line: LineFit, other: LineFit) -> bool:
    return line.held == other.held and [term.axis for term in line.terms] == [term.axis for term in other.terms]


def fit_text(line: LineFit, *, margins: bool = True) -> str:
    """A line in words: ``fixed 0.61 GiB + 13.2 MiB for each of agents (±0.1 MiB)``."""
    fixed = _margin(line.fixed_margin_bytes) if margins else ""
    parts = [f"fixed {format_size(line.fixed_bytes)}{fixed}"]
    for term in line.terms:
        margin = _margin(term.margin_bytes) if margins else ""
        parts.append(f"{format_size(term.bytes_each)} for each of {term.axis}{margin}")
    return " + ".join(parts)


def _margin(nbytes: float | None) -> str:
    return "" if nbytes is None else f" (±{format_size(nbytes)})"


def fit_remarks(line: LineFit) -> list[str]:
    """How far the line can be trusted."""
    remarks = []
    if line.terms[0].margin_bytes is None:
        remarks.append(f"no interval: a line through {line.points} points fits them always; measure more values")
    else:
        remarks.append(f"± is a 95 % interval; the line misses a point by {line.worst:.1%} at most")
    if line.bent and line.slopes is not None:
        first, last = line.slopes
        axis = line.terms[0].axis
        remarks.append(
            f"a line is a bad description: one more of {axis} costs {format_size(first)} at the low end "
            f"and {format_size(last)} at the high end"
        )
    elif not line.good:
        remarks.append("a line is a bad description: take the points themselves, not values in between")
    return remarks


def _figure(document: SweepDocument, line: LineFit) -> tuple[str, ...]:
    if len(line.terms) != 1:
        return ()
    (term,) = line.terms
    cap = document.options.cap_bytes
    marks = []
    for row in document.rows:
        if any(row.values.get(name) != value for name, value in line.held.items()):
            continue
        x = row.values.get(term.axis)
        if not isinstance(x, int):
            continue
        if row.predicted:
            marks.append((float(x), float(row.predicted.expected), "○"))
        if row.measured_bytes is not None:
            marks.append((float(x), float(row.measured_bytes), "●"))
        elif cap is not None:
            marks.append((float(x), float(cap), "×"))
    used = {mark for _, _, mark in marks}
    legend = "  ".join(f"{mark} {text}" for mark, text in _MARKS.items() if mark in used or mark == "·")
    drawn = plot(
        marks,
        lambda x: line.fixed_bytes + term.bytes_each * x,
        x_text=lambda x: format_count(round(x)),
        y_text=format_size,
    )
    return (*drawn, legend) if drawn else ()


def _notes(document: SweepDocument) -> tuple[str, ...]:
    options = document.options
    limits = []
    if options.cap_bytes is not None:
        limits.append(f"cap {format_size(options.cap_bytes)}")
    if options.time_limit_s is not None:
        limits.append(f"time limit {options.time_limit_s:g} s a point")
    notes = [
        "measured: peak of the whole process tree, shared pages once (PSS). error: expected against measured; + is too much.",
        "; ".join((*limits, f"measured {document.started}", f"{document.machine.get('system', 'unknown system')}")),
    ]
    if document.versions:
        notes.append(", ".join(f"{name} {text}" for name, text in document.versions.items()))
    return tuple(notes)
