"""A diff of two ledgers, line by line, at each one's peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.fields import FIELDS
from rlmem.ledger import NOT_COUNTED
from rlmem.plan import Plan
from rlmem.report.document import plan_document
from rlmem.report.view import Column, Section, Table, View, setting_text
from rlmem.units import format_size

COMPARE_SCHEMA = "rlmem.compare/1"


def compare_document(plans: Sequence[Plan], labels: Sequence[str]) -> dict[str, Any]:
    """Left and right: settings that differ, and components that differ at the peak of each device."""
    return compare_plan_documents([plan_document(plan) for plan in plans], labels)


def compare_plan_documents(documents: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """The same from saved plans."""
    left, right = documents
    held = {peak["device"] for document in documents for peak in document["peaks"]}
    return {
        "schema": COMPARE_SCHEMA,
        "left": _side(left, labels[0]),
        "right": _side(right, labels[1]),
        "settings": _settings(left["target"]["spec"], right["target"]["spec"]),
        "devices": [_device(left, right, device) for device in ("ram", "vram") if device in held],
    }


def _side(document: Mapping[str, Any], label: str) -> dict[str, Any]:
    return {
        "label": label,
        "name": document["target"]["name"],
        "verdict": document["verdict"],
        "summary": document["summary"],
    }


def _settings(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[dict[str, Any]]:
    rows = [field.path for field in FIELDS if field.path not in ("name", "about")]
    values = [(path, _value(left, path), _value(right, path)) for path in rows]
    return [{"path": path, "left": one, "right": other} for path, one, other in values if one != other]


def _value(spec: Mapping[str, Any], path: str) -> Any:
    value: Any = spec
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _device(left: Mapping[str, Any], right: Mapping[str, Any], device: str) -> dict[str, Any]:
    sides = (left, right)
    tops = [next((p for p in s["peaks"] if p["device"] == device and p["is_peak"]), None) for s in sides]
    held = [_components(s, device, top["phase"]) if top else {} for s, top in zip(sides, tops, strict=True)]
    names = dict.fromkeys((*held[0], *held[1]))
    rows: list[dict[str, Any]] = [
        {"component": name, "left_bytes": held[0].get(name, 0), "right_bytes": held[1].get(name, 0)} for name in names
    ]
    rows.sort(key=lambda row: -abs(row["right_bytes"] - row["left_bytes"]))
    return {
        "device": device,
        "left_phase": tops[0]["phase"] if tops[0] else None,
        "right_phase": tops[1]["phase"] if tops[1] else None,
        "left_bytes": tops[0]["expected_bytes"] if tops[0] else 0,
        "right_bytes": tops[1]["expected_bytes"] if tops[1] else 0,
        "components": rows,
    }


def _components(document: Mapping[str, Any], device: str, phase: str) -> dict[str, int]:
    totals: dict[str, int] = {}
    for entry in document["entries"]:
        if (entry["device"], entry["phase"]) == (device, phase) and entry["residency"] not in NOT_COUNTED:
            totals[entry["component"]] = totals.get(entry["component"], 0) + entry["nbytes"]
    return totals


def compare_view(document: dict[str, Any]) -> View:
    """The diff as tables."""
    sides = (document["left"], document["right"])
    lines = tuple(f"{side['label']}: {text}" for side in sides for text in side["summary"])
    tables = []
    if document["settings"]:
        rows = tuple(
            (row["path"], setting_text(row["left"]), setting_text(row["right"])) for row in document["settings"]
        )
        columns = (Column(title="setting", right=False), Column(title="left"), Column(title="right"))
        tables.append(Table(title="Settings that differ", columns=columns, rows=rows))
    tables += [_table(device) for device in document["devices"]]
    title = f"{sides[0]['label']}  ↔  {sides[1]['label']}"
    return View(
        title=title,
        verdict=(),
        sections=(Section(title="Side by side", lines=lines, tables=tuple(tables)),),
        notes=("Each side at its own peak. GiB is 2³⁰ bytes.",),
    )


def _table(device: dict[str, Any]) -> Table:
    changed = [row for row in device["components"] if row["left_bytes"] != row["right_bytes"]]
    same = [row for row in device["components"] if row["left_bytes"] == row["right_bytes"]]
    rows = [(row["component"], *cells(row["left_bytes"], row["right_bytes"])) for row in changed]
    if same:
        total = sum(row["left_bytes"] for row in same)
        rows.append((f"{len(same)} equal", format_size(total), format_size(total), "", ""))
    rows.append(("total", *cells(device["left_bytes"], device["right_bytes"])))
    columns = (
        Column(title="component", right=False),
        Column(title=f"left, in {device['left_phase']}"),
        Column(title=f"right, in {device['right_phase']}"),
        Column(title="difference"),
        Column(title="ratio"),
    )
    return Table(title=device["device"].upper(), columns=columns, rows=tuple(rows), footers=1)


def cells(left: int, right: int) -> tuple[str, str, str, str]:
    """Left, right, difference and ratio."""
    difference = right - left
    sign = "+" if difference > 0 else ""
    ratio = f"{right / left:.2f}×" if left else ""
    return format_size(left), format_size(right), f"{sign}{format_size(difference)}", ratio
