"""Views of how far a knob can be turned: a table over machines, and the curve of one machine."""

from __future__ import annotations

from rlmem.core.ledger import DEVICES
from rlmem.documents.capacity import FURTHEST, CapacityCurveDocument, CapacityCurvePart, CapacityDocument
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_count, format_range, format_size

#: Verdicts in words, where only a limit is missing.
VERDICT_WORDS = {
    "fits": "fits",
    "tight": "tight",
    "does-not-fit": "does not fit",
    "unknown": "no limit known",
    "grows": "grows",
}


def capacity_view(document: CapacityDocument) -> View:
    """The document as tables."""
    path = document.vary
    tables = []
    asked = bool(document.machines[0].verdicts)
    if asked:
        tables.append(_values_table(document))
    tables.append(_machines_table(document, path))
    lines = []
    for cost in document.per_unit:
        if cost.bytes is not None:
            lines.append(
                f"{cost.device.upper()}: {format_size(cost.fixed_bytes)} fixed + {format_size(cost.bytes)} "
                f"({cost.bytes:,} B) for each of {path}"
            )
    section = Section(title=f"Capacity of {path}", lines=tuple(lines), tables=tuple(tables))
    target = document.target
    title = f"{target.name}: {target.about}" if target.about else target.name
    notes = [
        "At the largest value the expected peak just fits; at the safe one its upper bound does. GiB is 2³⁰, GB 10⁹ bytes."
    ]
    if any(machine.useful for machine in document.machines):
        why = "the run has no more steps" if path == "buffer_size" else "there are no more cores for its workers"
        notes.append(f"No {path} beyond that is of use: {why}.")
    used = {cost.device for cost in document.per_unit}
    free = [
        d
        for d in ("ram", "vram")
        if d in used and all(getattr(machine, f"{d}_bytes") is None for machine in document.machines)
    ]
    notes += [f"{device.upper()} is not limited by these machines; add --{device} to limit it." for device in free]
    return View(title=title, verdict=(), sections=(section,), notes=tuple(notes))


def _values_table(document: CapacityDocument) -> Table:
    devices = [device for device in DEVICES if document.values[0].peak(device)]
    columns = [Column(title=document.vary)]
    for device in devices:
        columns += [Column(title=f"{device.upper()} peak"), Column(title="range", rank=2), Column(title="in", rank=3)]
    columns += [Column(title=machine.name, right=False) for machine in document.machines]
    rows = []
    for row in document.values:
        cells = [format_count(row.value)]
        for peak in filter(None, (row.peak(device) for device in devices)):
            spread = format_range(peak.low_bytes, peak.high_bytes, beside=peak.expected_bytes)
            cells += [format_size(peak.expected_bytes), spread, peak.phase]
        cells += [VERDICT_WORDS[machine.verdicts[str(row.value)]] for machine in document.machines]
        rows.append(tuple(cells))
    return Table(title="", columns=tuple(columns), rows=tuple(rows))


def _machines_table(document: CapacityDocument, path: str) -> Table:
    rows = []
    for machine in document.machines:
        limits = [
            f"{format_size(size)} {label}"
            for size, label in ((machine.ram_bytes, "RAM"), (machine.vram_bytes, "VRAM"))
            if size is not None
        ]
        cells = [
            format_count(value) if value is not None else "no limit" if machine.unlimited else "none fits"
            for value in (machine.largest, machine.largest_safe)
        ]
        needs = ", ".join(f"{format_size(size)} {device.upper()}" for device, size in machine.needs.items())
        rows.append((machine.name, ", ".join(limits) or "no limit known", *cells, needs))
    columns = (
        Column(title="machine", right=False),
        Column(title="limit", right=False),
        Column(title=f"largest {path}"),
        Column(title="safe (upper bound)"),
        Column(title="needs, at the largest"),
    )
    return Table(title="", columns=columns, rows=tuple(rows))


def curve_view(document: CapacityCurveDocument) -> View:
    """Arrange the answer and the values that were planned."""
    curve, machine = document.curve, document.machine
    if curve is None:
        section = Section(title="Capacity", lines=("The run cannot be planned with other values.",))
    else:
        words, table = curve_words(curve, machine), curve_table(curve, machine)
        section = Section(title=f"Capacity of {curve.knob}", lines=(words,), tables=(table,))
    return View(title=document.target, verdict=(), sections=(section,))


def curve_words(curve: CapacityCurvePart, machine: str) -> str:
    """The answer in a sentence."""
    knob, best = curve.knob, curve.largest_safe
    if best is not None and best > FURTHEST * curve.now:
        return f"{machine} holds more than {FURTHEST} times {knob} {format_count(curve.now)}: memory does not limit it."
    if best is not None:
        return f"The largest value of {knob} whose upper bound fits {machine}: {format_count(best)} (now {format_count(curve.now)})."
    return f"No limit on {knob} is known." if curve.unlimited else f"No {knob} fits {machine}."


def curve_table(curve: CapacityCurvePart, machine: str) -> Table:
    """A row for each value that was planned."""
    rows = tuple(
        (
            format_count(row.value) + (" (this run)" if row.value == curve.now else ""),
            format_size(row.peaks[0].expected_bytes),
            format_size(row.peaks[0].high_bytes),
            f"{row.peaks[0].device.upper()} in {row.peaks[0].phase}",
            VERDICT_WORDS[row.verdict],
        )
        for row in curve.rows
    )
    columns = (
        Column(title=curve.knob),
        Column(title="peak"),
        Column(title="upper bound"),
        Column(title="decided by", right=False, rank=1),
        Column(title=machine, right=False),
    )
    return Table(title="", columns=columns, rows=rows)
