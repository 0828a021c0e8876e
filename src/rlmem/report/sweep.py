"""The JSON contract of a sweep: its points, one row per combination of values, and the lines through them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rlmem.documents.contract import plain_part, read_part
from rlmem.errors import UsageError
from rlmem.line_fit import LineFit, fit_lines
from rlmem.points import STATUSES, Point, axes_text
from rlmem.report.contract import described, problems
from rlmem.runner.store import Run

SWEEP_SCHEMA = "rlmem.sweep/1"


def sweep_document(run: Run, header: Mapping[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    """A run of ``rlmem measure`` as plain data; ``header`` is what the sweep asked for."""
    return _with_rows(
        {
            "schema": SWEEP_SCHEMA,
            "rlmem": run.versions.get("rlmem", ""),
            "run": run.id,
            "target": run.target,
            "command": list(run.command),
            "started": run.started,
            "status": run.status,
            "machine": dict(run.machine),
            "axes": header.get("axes", []),
            "repeat": header.get("repeat", 1),
            "options": header.get("options", {}),
            "points": [_point(kept) for kept in _ordered(header, points)],
        }
    )


def _point(point: Point) -> dict[str, Any]:
    return {**plain_part(point), "processes": [plain_part(process) for process in point.processes]}


def _ordered(header: Mapping[str, Any], points: Sequence[Point]) -> list[Point]:
    """Points in the order of the axes' values, whenever they were measured."""
    place = {axis["name"]: {value: n for n, value in enumerate(axis["values"])} for axis in header.get("axes", [])}
    return sorted(
        points,
        key=lambda kept: (
            *(order.get(kept.values.get(name, ""), len(order)) for name, order in place.items()),
            kept.repeat,
        ),
    )


def _with_rows(document: dict[str, Any]) -> dict[str, Any]:
    points = [read_part(Point, data) for data in document["points"]]
    measured = [(point.values, point.peak_bytes) for point in points if point.is_ok and point.peak_bytes is not None]
    expected = {
        axes_text(point.values): (point.values, point.predicted.expected) for point in points if point.predicted
    }
    document["rows"] = [_row(group) for group in _groups(points)]
    document["fits"] = {
        "measured": [_plain(line) for line in fit_lines(measured)] if measured else [],
        "predicted": [_plain(line) for line in fit_lines(list(expected.values()))] if expected else [],
    }
    return document


def _groups(points: Iterable[Point]) -> list[list[Point]]:
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(axes_text(point.values), []).append(point)
    return list(found.values())


def _row(group: Sequence[Point]) -> dict[str, Any]:
    """Repeats of the same values as one row: the median of what ended well, and the spread."""
    ended = [point for point in group if point.is_ok and point.peak_bytes is not None]
    sizes = sorted(point.peak_bytes for point in ended if point.peak_bytes is not None)
    middle = round(median(sizes)) if sizes else None
    others = [point for point in group if not point.is_ok]
    status = Counter(point.status for point in others).most_common(1)[0][0] if others else "ok"
    told = next((point for point in (*others, *ended) if point.note), None)
    best = min(ended, key=lambda point: abs((point.peak_bytes or 0) - (middle or 0)), default=None)
    predicted = next((plain_part(point.predicted) for point in group if point.predicted), None)
    return {
        "values": dict(group[0].values),
        "status": status,
        "runs": len(group),
        "ok_runs": len(ended),
        "measured_bytes": middle,
        "least_bytes": sizes[0] if sizes else None,
        "most_bytes": sizes[-1] if sizes else None,
        "reached_bytes": max((point.peak_bytes for point in others if point.peak_bytes), default=None),
        "predicted": predicted,
        "error": predicted["expected"] / middle - 1 if predicted and middle else None,
        "wall_s": max(point.wall_s for point in group),
        "note": told.note if told else "",
        "phases": dict(best.phases) if best else {},
        "components": _components(best or group[0]),
        "vram": dict(best.vram) if best else {},
        "nodes": sorted({point.node for point in group if point.node is not None}),
    }


def _components(point: Point) -> list[dict[str, Any]]:
    """What was measured by name, the plan's figure beside it; what only the plan has is not measured, hence left out."""
    return [
        {"component": name, "measured_bytes": nbytes, "predicted_bytes": point.predicted_components.get(name)}
        for name, nbytes in sorted(point.components.items(), key=lambda item: -item[1])
    ]


def _plain(line: LineFit) -> dict[str, Any]:
    return {
        **asdict(line),
        "terms": [asdict(term) for term in line.terms],
        "slopes": list(line.slopes) if line.slopes else None,
    }


def versions_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Versions that were measured with; an environment that changed on the way has several of one package."""
    found: dict[str, dict[str, None]] = {}
    for point in document["points"]:
        for name, text in point["versions"].items():
            found.setdefault(name, {})[text] = None
    return {name: " and ".join(texts) for name, texts in found.items()}


def read_sweep_document(data: Any, where: str) -> dict[str, Any]:
    """A saved document of any version, as the newest one has it; rows and lines are made again from the points."""
    problem = next(problems(data, SWEEP_JSON_SCHEMA, ""), None)
    if problem:
        raise UsageError(f"{where}: not a complete sweep document: {problem}")
    return _with_rows(dict(data))


_TEXT = {"type": "string"}
_MAYBE_BYTES = {"type": ["integer", "null"]}
_SIZES = {"type": "object", "additionalProperties": {"type": "integer"}}
_VALUES = {"type": "object", "additionalProperties": {"type": ["integer", "string"]}}
_POINT = described(
    {
        "repeat": {"type": "integer"},
        "values": _VALUES,
        "status": {"enum": list(STATUSES)},
        "peak_bytes": {**_MAYBE_BYTES, "description": "peak PSS of the process tree"},
        "phases": _SIZES,
        "components": _SIZES,
        "processes": {"type": "array", "items": {"type": "object"}},
        "versions": {"type": "object", "additionalProperties": _TEXT},
        "wall_s": {"type": "number"},
        "note": _TEXT,
        "predicted": {
            "type": ["object", "null"],
            "properties": {key: {"type": "integer"} for key in ("low", "expected", "high")},
            "required": ["low", "expected", "high"],
        },
        "predicted_components": _SIZES,
        "cgroup_bytes": _MAYBE_BYTES,
        "vram": _SIZES,
        "node": {"type": ["string", "null"], "description": "of a cluster, that ran it"},
    },
    optional=("predicted_components", "cgroup_bytes", "vram", "node"),
)
SWEEP_JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": SWEEP_SCHEMA,
    "title": "rlmem sweep",
    "description": "What a target needed, measured in one fresh process a point. Sizes are integers in bytes.",
    **described(
        {
            "schema": {"const": SWEEP_SCHEMA},
            "rlmem": {**_TEXT, "description": "version that measured"},
            "run": _TEXT,
            "target": _TEXT,
            "command": {"type": "array", "items": _TEXT},
            "started": _TEXT,
            "status": _TEXT,
            "machine": {"type": "object"},
            "axes": {
                "type": "array",
                "items": described(
                    {"name": _TEXT, "values": {"type": "array", "items": {"type": ["integer", "string"]}}}
                ),
            },
            "repeat": {"type": "integer"},
            "options": {
                "type": "object",
                "properties": {"cap_bytes": _MAYBE_BYTES, "time_limit_s": {"type": ["number", "null"]}},
            },
            "points": {"type": "array", "description": "one fresh process each", "items": _POINT},
            "rows": {
                "type": "array",
                "description": "repeats of the same values together; error is expected / measured - 1",
                "items": {"type": "object"},
            },
            "fits": {
                "type": "object",
                "description": "fixed_bytes + bytes_each of each axis, over points that ended well; margins are half of a "
                "95 % interval, null where there are too few points",
            },
        },
        optional=("rows", "fits"),
    ),
}
