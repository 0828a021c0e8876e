"""Two recorded runs side by side: how each ended, and who held its peak."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rlmem.report.compare import cells
from rlmem.report.recorded import ending, peak_sentence
from rlmem.report.view import Column, Section, Table, View
from rlmem.runner.recording import MOST_OWNERS
from rlmem.units import format_duration, format_size

COMPARE_RECORDED_SCHEMA = "rlmem.compare-recorded/1"
#: The row of what is left of a peak.
REST = "not held by a named owner"
#: Points of a timeline that are enough to draw it.
MOST_POINTS = 200
#: Owners in other processes begin with who these are; their numbers are never the same twice.
_PID = re.compile(r"^([\w-]+) \d+: ")


def compare_recorded(documents: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> dict[str, Any]:
    """Owners and phases of both, each at its own peak; None is what is not known."""
    left, right = documents
    return {
        "schema": COMPARE_RECORDED_SCHEMA,
        "left": _side(left, labels[0]),
        "right": _side(right, labels[1]),
        "owners": _owners(left["peak"], right["peak"]),
        "phases": _phases(left["phases"], right["phases"]),
        "moments": {"left": _points(left["moments"]), "right": _points(right["moments"])},
    }


def _side(document: Mapping[str, Any], label: str) -> dict[str, Any]:
    peak, found = document["peak"], document["ended"] or {}
    is_known = peak["nbytes"] > 0
    return {
        "label": label,
        "target": document["target"],
        "status": document["status"],
        "ending": ending(document),
        "state": document["judgement"]["state"],
        "wall_s": found.get("wall_s"),
        "peak_bytes": peak["nbytes"] if is_known else None,
        "at_s": peak["at_s"] if is_known else None,
        "phase": peak["phase"] if is_known else "",
        "limit_bytes": peak["limit_bytes"],
        "owners_at_s": peak["owners_at_s"] if peak["owners"] else None,
        "summary": _summary(document, found.get("postmortem")),
    }


def _summary(document: Mapping[str, Any], postmortem: Mapping[str, Any] | None) -> list[str]:
    judgement = document["judgement"]
    lines = [ending(document), peak_sentence(document)]
    if postmortem:
        lines.append(f"why: {postmortem['cause']}")
    if judgement["state"] != "unknown":
        lines.append(": ".join((judgement["state"], *judgement["reasons"][:1])))
    return lines


def _owners(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Resident bytes by path, largest difference first; nothing where neither side knows its owners."""
    peaks = (left, right)
    held = [_held(peak) for peak in peaks]
    if held == [None, None]:
        return []
    rows = []
    for path in dict.fromkeys(path for side in held for path in side or ()):
        one, other = (_bytes(peak, side, path) for peak, side in zip(peaks, held, strict=True))
        rows.append({"path": path, "left_bytes": one, "right_bytes": other})
    one, other = (_rest(peak, side) for peak, side in zip(peaks, held, strict=True))
    rows.append({"path": REST, "left_bytes": one, "right_bytes": other})
    return sorted(rows, key=lambda row: -abs((row["right_bytes"] or 0) - (row["left_bytes"] or 0)))


def _held(peak: Mapping[str, Any]) -> dict[str, int] | None:
    """RAM by owner; None where nobody could be asked."""
    if not peak["owners"]:
        return None
    totals: dict[str, int] = {}
    for owner in peak["owners"]:
        if owner["device"] == "ram":
            path = _PID.sub(r"\1: ", owner["path"])
            totals[path] = totals.get(path, 0) + owner["resident_bytes"]
    return totals


def _bytes(peak: Mapping[str, Any], held: Mapping[str, int] | None, path: str) -> int | None:
    """What one owner holds: nothing where it is missing, unless only the largest were kept."""
    if held is None or (path not in held and len(peak["owners"]) >= MOST_OWNERS):
        return None
    return held.get(path, 0)


def _rest(peak: Mapping[str, Any], held: Mapping[str, int] | None) -> int | None:
    """What is left; not known where owners, asked at another time, held more than the peak."""
    total = sum((held or {}).values())
    return peak["nbytes"] - total if held is not None and 0 < peak["nbytes"] >= total else None


def _phases(left: Sequence[Mapping[str, Any]], right: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    sides = [{row["phase"]: row["peak_bytes"] for row in rows} for rows in (left, right)]
    names = dict.fromkeys((*sides[0], *sides[1]))
    return [{"phase": name, "left_bytes": sides[0].get(name), "right_bytes": sides[1].get(name)} for name in names]


def _points(moments: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Time and size, evenly thinned; the first, the last and the largest stay."""
    points = [[moment["at_s"], moment["tree_bytes"]] for moment in moments]
    if len(points) <= MOST_POINTS:
        return points
    largest = max(range(len(points)), key=lambda index: points[index][1])
    step = (len(points) - 1) / (MOST_POINTS - 2)
    return [points[index] for index in sorted({largest, *(round(number * step) for number in range(MOST_POINTS - 1))})]


# -- the view -----------------------------------------------------------------------------------------------------------


def compare_recorded_view(document: Mapping[str, Any]) -> View:
    """Sentences of both, and their owners and phases as tables."""
    sides = (document["left"], document["right"])
    lines = [f"{side['label']}: {text}" for side in sides for text in side["summary"]]
    lines += [f"{side['label']}: owners are not known" for side in sides if side["owners_at_s"] is None]
    tables = []
    if document["owners"]:
        tables.append(_owners_table(document["owners"], sides))
    if document["phases"]:
        rows = tuple((row["phase"] or "outside of training", *_cells(row)) for row in document["phases"])
        tables.append(Table(title="Largest by phase", columns=_columns("phase"), rows=rows))
    return View(
        title="  ↔  ".join(_title(side) for side in sides),
        verdict=(),
        sections=(Section(title="Side by side", lines=tuple(lines), tables=tuple(tables)),),
        notes=("RAM of the process tree, each side at its own peak. GiB is 2³⁰ bytes.",),
    )


def _title(side: Mapping[str, Any]) -> str:
    return f"{side['label']} ({side['target']})" if side["target"] else str(side["label"])


def _owners_table(owners: Sequence[Mapping[str, Any]], sides: Sequence[Mapping[str, Any]]) -> Table:
    total = {"left_bytes": sides[0]["peak_bytes"], "right_bytes": sides[1]["peak_bytes"]}
    return Table(
        title="Who held the peak",
        columns=_columns("owner", *(f", in {side['phase']}" if side["phase"] else "" for side in sides)),
        rows=(*((row["path"], *_cells(row)) for row in owners), ("peak", *_cells(total))),
        footers=1,
        note="\n".join(text for side in sides if (text := _asked(side))),
    )


def _asked(side: Mapping[str, Any]) -> str:
    if side["owners_at_s"] is None or side["at_s"] is None:
        return ""
    away = abs(side["owners_at_s"] - side["at_s"])
    return f"{side['label']}: owners were asked {format_duration(away)} from the peak." if away >= 1 else ""


def _columns(word: str, left: str = "", right: str = "") -> tuple[Column, ...]:
    return (
        Column(title=word, right=False),
        Column(title=f"left{left}"),
        Column(title=f"right{right}"),
        Column(title="difference"),
        Column(title="ratio"),
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    left, right = row["left_bytes"], row["right_bytes"]
    if left is not None and right is not None:
        return cells(left, right)
    return _one(left), _one(right), "", ""


def _one(nbytes: int | None) -> str:
    return format_size(nbytes) if nbytes is not None else "–"
