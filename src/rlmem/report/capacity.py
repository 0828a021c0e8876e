"""Capacity tables: the largest value per machine, or machines against values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlmem.capacity import largest, useful
from rlmem.model.constants import Constants
from rlmem.plan import Budget, Plan
from rlmem.planner import Planner
from rlmem.report.view import Column, Section, Table, View
from rlmem.spec import RunSpec
from rlmem.units import format_count, format_size

CAPACITY_SCHEMA = "rlmem.capacity/1"
_MARKS = {"fits": "fits", "tight": "tight", "does-not-fit": "does not fit", "unknown": "no limit known"}


def capacity_document(
    spec: RunSpec, path: str, values: Sequence[int], budgets: Sequence[Budget], constants: Constants
) -> dict[str, Any]:
    """Peaks at each value, the cost of one more, and per machine the largest value and each value's verdict."""
    sizes = [
        _at(spec, path, value, Planner(budgets[0], constants)) for value in values or _around(spec, path, constants)
    ]
    first, last = sizes[0], sizes[-1]
    machines = [_machine(spec, path, values, Planner(budget, constants)) for budget in budgets]
    return {
        "schema": CAPACITY_SCHEMA,
        "target": {"name": spec.name, "about": spec.get("about")},
        "vary": path,
        "per_unit": [_slope(first, last, device) for device in ("ram", "vram") if device in first["peaks"]],
        "values": sizes,
        "machines": machines,
    }


def _around(spec: RunSpec, path: str, constants: Constants) -> tuple[int, int]:
    """Two values to take the cost of one more from, when none were asked for."""
    from rlmem.frameworks import resolve

    now = int(resolve(spec).get(path, 1))
    return now, 2 * now


def _at(spec: RunSpec, path: str, value: int, planner: Planner) -> dict[str, Any]:
    plan = planner.plan(spec.having({path: value}, f"--vary {path}"), findings=False)
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


def _machine(spec: RunSpec, path: str, values: Sequence[int], planner: Planner) -> dict[str, Any]:
    budget = planner.budget

    def replan(other: RunSpec) -> Plan:
        return planner.plan(other, findings=False)

    most = useful(replan(spec), path)
    found = largest(spec, path, replan, expected=True)
    safe = largest(spec, path, replan)
    verdicts = {value: _plan(spec, path, value, planner).verdict for value in values}
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


def _plan(spec: RunSpec, path: str, value: int, planner: Planner) -> Plan:
    return planner.plan(spec.having({path: value}, f"--vary {path}"), findings=False)


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
            unit = format_size(peak["expected_bytes"]).rsplit(" ", 1)[1]
            low, high = (format_size(peak[k], unit=unit).rsplit(" ", 1)[0] for k in ("low_bytes", "high_bytes"))
            cells += [format_size(peak["expected_bytes"]), f"{low}–{high}", peak["phase"]]
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
