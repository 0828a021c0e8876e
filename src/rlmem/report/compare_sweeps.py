"""Two measurements side by side: every point they share, and where the difference lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.points import axes_text
from rlmem.report.compare import cells
from rlmem.report.sweep import versions_of
from rlmem.report.sweep_view import fit_text, label
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_size

COMPARE_SWEEPS_SCHEMA = "rlmem.compare-sweeps/1"
#: The parts of a row that are compared, and how the table calls one of them.
_PARTS = (("phases", "phase"), ("components", "component"))


def compare_sweeps(documents: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """Points by values, lines, and the phases and components of the largest point both have."""
    sides = [{axes_text(row["values"]): row for row in document["rows"]} for document in documents]
    keys = dict.fromkeys((*sides[0], *sides[1]))
    rows = [_pair(sides[0].get(key), sides[1].get(key)) for key in keys]
    shared = [key for key in keys if all(key in s and s[key]["measured_bytes"] is not None for s in sides)]
    largest = max(shared, key=lambda key: sides[0][key]["measured_bytes"], default=None)
    return {
        "schema": COMPARE_SWEEPS_SCHEMA,
        "left": _side(documents[0], labels[0]),
        "right": _side(documents[1], labels[1]),
        "points": rows,
        "at": sides[0][largest]["values"] if largest is not None else None,
        **{
            part: _parts(sides[0][largest], sides[1][largest], part) if largest is not None else []
            for part, _ in _PARTS
        },
    }


def _side(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        "label": name,
        "target": document["target"],
        "started": document["started"],
        "versions": versions_of(document),
        "fits": document["fits"]["measured"],
    }


def _pair(left: Mapping[str, Any] | None, right: Mapping[str, Any] | None) -> dict[str, Any]:
    either = left or right or {}
    return {
        "values": either["values"],
        "left_status": left["status"] if left else None,
        "right_status": right["status"] if right else None,
        "left_bytes": left["measured_bytes"] if left else None,
        "right_bytes": right["measured_bytes"] if right else None,
    }


def _parts(left: Mapping[str, Any], right: Mapping[str, Any], part: str) -> list[dict[str, Any]]:
    held = [_sizes(row[part]) for row in (left, right)]
    names = dict.fromkeys((*held[0], *held[1]))
    return [{"name": name, "left_bytes": held[0].get(name), "right_bytes": held[1].get(name)} for name in names]


def _sizes(part: Any) -> dict[str, int]:
    if isinstance(part, Mapping):
        return dict(part)
    return {row["component"]: row["measured_bytes"] for row in part}


def compare_sweeps_view(document: Mapping[str, Any]) -> View:
    """The pairs as tables."""
    sides = (document["left"], document["right"])
    lines = [f"{side['label']}: {fit_text(line)}" for side in sides for line in side["fits"]]
    tables = [_table("", "point", [(label(row["values"]) or "peak", row) for row in document["points"]])]
    where = f" at {label(document['at'])}" if document["at"] else ""
    for part, word in _PARTS:
        if document[part]:
            tables.append(_table(f"By {word}{where}", word, [(row["name"], row) for row in document[part]]))
    changed = _versions(*sides)
    if changed:
        columns = (Column(title="version of", right=False), Column(title="left"), Column(title="right"))
        tables.append(Table(title="Versions that differ", columns=columns, rows=changed))
    return View(
        title=f"{sides[0]['label']}  ↔  {sides[1]['label']}",
        verdict=(),
        sections=(Section(title="Side by side", lines=tuple(lines), tables=tuple(tables)),),
        notes=("Measured peaks of the process tree. GiB is 2³⁰ bytes.",),
    )


def _table(title: str, word: str, rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Table:
    columns = (
        Column(title=word, right=False),
        Column(title="left"),
        Column(title="right"),
        Column(title="difference"),
        Column(title="ratio"),
    )
    return Table(title=title, columns=columns, rows=tuple((name, *_cells(row)) for name, row in rows))


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    left, right = row["left_bytes"], row["right_bytes"]
    if left is not None and right is not None:
        return cells(left, right)
    return _one(left, row.get("left_status")), _one(right, row.get("right_status")), "", ""


def _one(nbytes: int | None, status: str | None) -> str:
    return format_size(nbytes) if nbytes is not None else status or "–"


def _versions(left: Mapping[str, Any], right: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    names = dict.fromkeys((*left["versions"], *right["versions"]))
    rows = ((name, left["versions"].get(name, "–"), right["versions"].get(name, "–")) for name in names)
    return tuple(row for row in rows if row[1] != row[2])
