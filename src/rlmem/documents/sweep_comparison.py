"""Two sweeps side by side as a document: every point they share, and where the difference lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.core.line_fit import LineFit
from rlmem.core.points import Status, Values, axes_text
from rlmem.documents.comparison import DeviceDifference, PhaseDifference, Side, SidePart, compare_phases, compare_sides
from rlmem.documents.contract import Document, Plain
from rlmem.documents.parts import Size
from rlmem.documents.sweep import SweepDocument, SweepRow


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSide:
    """One of the sweeps in short."""

    label: str
    target: str
    started: str
    versions: Mapping[str, str]
    fits: tuple[LineFit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointDifference:
    """The same values measured on both sides; null where one side has not measured them."""

    values: Values
    left_status: Status | None
    right_status: Status | None
    left_bytes: Size | None
    right_bytes: Size | None


_SIDES = ("left_bytes", "right_bytes")


def _from_first(data: Plain) -> Plain:
    """Version 1 had the components of RAM alone, without a device; their sum is the peak of the point. Phases had names."""
    phases = [{"phase": row["name"], **{side: row[side] for side in _SIDES}} for row in data["phases"]]
    rows = [{"component": row["name"], **{side: row[side] for side in _SIDES}} for row in data["components"]]
    peaks: Plain = next((point for point in data["points"] if point["values"] == data["at"]), {})
    totals = {side: peaks.get(side) for side in _SIDES}
    ram = {"device": "ram", "left_phase": None, "right_phase": None, **totals, "components": rows}
    return {**data, "phases": phases, "devices": [ram] if rows else []}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepComparisonDocument(Document):
    """Two measurements side by side. Sizes are integers in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.compare-sweeps/2"
    TITLE: ClassVar[str] = "rlmem compare of two sweeps"
    OLDER: ClassVar[Any] = {"rlmem.compare-sweeps/1": _from_first}

    left: SweepSide
    right: SweepSide
    points: tuple[PointDifference, ...]
    at: Annotated[Values | None, Meta(description="the largest point that both have; null when they share none")]
    phases: Annotated[tuple[PhaseDifference, ...], Meta(description="of that point")]
    devices: Annotated[tuple[DeviceDifference, ...], Meta(description="what held the peak of that point on both sides")]


def compare_sweeps(documents: Sequence[SweepDocument], labels: Sequence[str]) -> SweepComparisonDocument:
    """Return points by values, lines, and the phases and the ledgers of the largest point both have."""
    left, right = ({axes_text(row.values): row for row in document.rows} for document in documents)
    shared = [
        (left[key], right[key])
        for key in left
        if key in right and left[key].measured_bytes is not None and right[key].measured_bytes is not None
    ]
    largest = max(shared, key=lambda pair: pair[0].measured_bytes or 0, default=None)
    return SweepComparisonDocument(
        left=_side(documents[0], labels[0]),
        right=_side(documents[1], labels[1]),
        points=tuple(_pair(left.get(key), right.get(key)) for key in dict.fromkeys((*left, *right))),
        at=largest[0].values if largest else None,
        phases=compare_phases(*(row.phases for row in largest)) if largest else (),
        devices=_devices(documents, labels, largest[0].values) if largest else (),
    )


def _side(document: SweepDocument, label: str) -> SweepSide:
    return SweepSide(
        label=label,
        target=document.target,
        started=document.started,
        versions=document.versions,
        fits=document.fits.measured,
    )


def _pair(left: SweepRow | None, right: SweepRow | None) -> PointDifference:
    either = left or right
    assert either is not None
    return PointDifference(
        values=either.values,
        left_status=left.status if left else None,
        right_status=right.status if right else None,
        left_bytes=left.measured_bytes if left else None,
        right_bytes=right.measured_bytes if right else None,
    )


def _devices(documents: Sequence[SweepDocument], labels: Sequence[str], values: Values) -> tuple[DeviceDifference, ...]:
    """Return what held the peak of a point on both sides, line by line as any two ledgers are compared."""
    left, right = (_ledger_side(document, label, values) for document, label in zip(documents, labels, strict=True))
    return compare_sides(left, right).devices


def _ledger_side(document: SweepDocument, label: str, values: Values) -> Side:
    point = document.middle(values)
    assert point is not None  # it was measured on both sides
    return Side(about=SidePart(label=label, name=document.target, source="measured"), ledger=point.ledger())
