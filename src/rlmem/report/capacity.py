"""Capacity tables: the largest value per machine, or machines against values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlmem.capacity import largest, useful
from rlmem.core.subject import Subject
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_count, format_range, format_size

CAPACITY_SCHEMA = "rlmem.capacity/1"
_MARKS = {
    "fits": "fits",
    "tight": "tight",
    "does-not-fit": "does not fit",
    "unknown": "no limit known",
    "grows": "grows",
}


def capacity_document(subjects: Sequence[Subject], path: str, values: Sequence[int]) -> dict[str, Any]:
    """Peaks at each value, the cost of one more, and per machine the largest value and each value's verdict.

    Args:
        subjects: the run, planned for one machine each; it can be planned changed.
        path: the count to turn.
        values: values to say the peaks of; when there are none, the cost of one more is taken from two of our own.
    """
    first = subjects[0]
    sizes = [_at(first, path, value) for value in values or _around(first, path)]
    return {
        "schema": CAPACITY_SCHEMA,
        "target": {"name": first.asked.name, "about": first.asked.get("about")},
        "vary": path,
        "per_unit": [_slope(sizes[0], sizes[-1], device) for device in ("ram", "vram") if device in sizes[0]["peaks"]],
        "values": sizes,
        "machines": [_machine(subject, path, values) for subject in subjects],
    }


def _around(subject: Subject, path: str) -> tuple[int, int]:
    """Two values to take the cost of one more from, when none were asked for."""
    now = int(subject.plan.spec.get(path, 1))
    return now, 2 * now


def _at(subject: Subject, path: str, value: int) -> dict[str, Any]:
    plan = subject.changed({path: value})
    return {
        "value": value,
        "verdict": plan.verdict,
        "peaks": {
            top.device: {
                "phase": top.phase,
                "low_bytes": top.low_bytes,
                "expected_bytes": top.expected_bytes,
                "high_bytes": top.high_bytes,
            }
            for top in plan.tops
        },
    }


def _slope(first: dict[str, Any], last: dict[str, Any], device: str) -> dict[str, Any]:
    span = last["value"] - first["value"]
    rise = last["peaks"][device]["expected_bytes"] - first["peaks"][device]["expected_bytes"]
    per_unit = rise // span if span else None
    fixed = first["peaks"][device]["expected_bytes"] - (per_unit or 0) * first["value"]
    return {"device": device, "bytes": per_unit, "fixed_bytes": fixed}


def _machine(subject: Subject, path: str, values: Sequence[int]) -> dict[str, Any]:
    budget = subject.plan.budget
    most = useful(subject.plan, path)
    found = largest(subject.asked, path, subject.plan_of, expected=True)
    safe = largest(subject.asked, path, subject.plan_of)
    verdicts = {value: subject.changed({path: value}).verdict for value in values}
    return {
        "name": budget.name,
        "ram_bytes": budget.ram_bytes,
        "vram_bytes": budget.vram_bytes,
        "largest": found.value,
        "largest_safe": safe.value,
        "useful": most if most is not None and most in (found.value, safe.value) else None,
        "unlimited": found.unlimited,
        "needs": {top.device: top.expected_bytes for top in found.plan.tops} if found.plan and found.value else {},
        "verdicts": {str(value): verdict for value, verdict in verdicts.items()},
    }


def capacity_view(document: dict[str, Any]) -> View:
    """The document as tables."""
    path = document["vary"]
    tables = []
    asked = bool(document["machines"][0]["verdicts"])
    if asked:
        tables.append(_values_table(document))
    tables.append(_machines_table(document, path))
    lines = []
    for slope in document["per_unit"]:
        if slope["bytes"] is not None:
            lines.append(
                f"{slope['device'].upper()}: {format_size(slope['fixed_bytes'])} fixed + {format_size(slope['bytes'])} "
                f"({slope['bytes']:,} B) for each of {path}"
            )
    section = Section(title=f"Capacity of {path}", lines=tuple(lines), tables=tuple(tables))
    target = document["target"]
    title = f"{target['name']}: {target['about']}" if target["about"] else target["name"]
    notes = [
        "At the largest value the expected peak just fits; at the safe one its upper bound does. GiB is 2³⁰, GB 10⁹ bytes."
    ]
    if any(machine.get("useful") for machine in document["machines"]):
        why = "the run has no more steps" if path == "buffer_size" else "there are no more cores for its workers"
        notes.append(f"No {path} beyond that is of use: {why}.")
    used = {slope["device"] for slope in document["per_unit"]}
    free = [d for d in ("ram", "vram") if d in used and all(m[f"{d}_bytes"] is None for m in document["machines"])]
    notes += [f"{device.upper()} is not limited by these machines; add --{device} to limit it." for device in free]
    return View(title=title, verdict=(), sections=(section,), notes=tuple(notes))


def _values_table(document: dict[str, Any]) -> Table:
    devices = list(document["values"][0]["peaks"])
    columns = [Column(title=document["vary"])]
    for device in devices:
        columns += [Column(title=f"{device.upper()} peak"), Column(title="range", rank=2), Column(title="in", rank=3)]
    columns += [Column(title=machine["name"], right=False) for machine in document["machines"]]
    rows = []
    for row in document["values"]:
        cells = [format_count(row["value"])]
        for device in devices:
            peak = row["peaks"][device]
            expected, low, high = (peak[key] for key in ("expected_bytes", "low_bytes", "high_bytes"))
            cells += [format_size(expected), format_range(low, high, beside=expected), peak["phase"]]
        cells += [_MARKS[machine["verdicts"][str(row["value"])]] for machine in document["machines"]]
        rows.append(tuple(cells))
    return Table(title="", columns=tuple(columns), rows=tuple(rows))


def _machines_table(document: dict[str, Any], path: str) -> Table:
    rows = []
    for machine in document["machines"]:
        limits = [
            f"{format_size(machine[key])} {label}"
            for key, label in (("ram_bytes", "RAM"), ("vram_bytes", "VRAM"))
            if machine[key] is not None
        ]
        cells = [
            format_count(machine[key])
            if machine[key] is not None
            else "no limit"
            if machine["unlimited"]
            else "none fits"
            for key in ("largest", "largest_safe")
        ]
        needs = ", ".join(f"{format_size(size)} {device.upper()}" for device, size in machine["needs"].items())
        rows.append((machine["name"], ", ".join(limits) or "no limit known", *cells, needs))
    columns = (
        Column(title="machine", right=False),
        Column(title="limit", right=False),
        Column(title=f"largest {path}"),
        Column(title="safe (upper bound)"),
        Column(title="needs, at the largest"),
    )
    return Table(title="", columns=columns, rows=tuple(rows))


def render_capacity(document: dict[str, Any], wanted: str, output: Path | None) -> str:
    """The document in the wanted format."""
    from rlmem.report.render import render_view

    return render_view(document, capacity_view, wanted, output)
