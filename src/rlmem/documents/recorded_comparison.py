"""Two recorded runs side by side, as a document: how each ended, and who held its peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.comparison import PhaseDifference, compare_phases
from rlmem.documents.contract import Document
from rlmem.documents.moment import MomentPart, State
from rlmem.documents.parts import Size
from rlmem.documents.recorded import (
    MOST_OWNERS,
    OF_CHILD,
    RecordedDocument,
    RecordedPeakPart,
    ending,
    peak_sentence,
)

#: The row of what is left of a peak.
REST = "not held by a named owner"
#: Points of a timeline that are enough to draw it.
MOST_POINTS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSide:
    """One of the two runs; its peak is ``null`` where it is not known."""

    label: str
    target: str
    status: str
    ending: str
    state: State
    wall_s: float | None
    peak_bytes: Size | None
    at_s: float | None
    phase: str
    limit_bytes: Size | None
    owners_at_s: Annotated[float | None, Meta(description="null: its owners are not known")]
    summary: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerRow:
    """What one owner holds on both sides; ``null`` is not known."""

    path: str
    left_bytes: Size | None
    right_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelinesPart:
    """Time and size of both runs, enough to draw them."""

    left: tuple[tuple[float, int], ...]
    right: tuple[tuple[float, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedComparisonDocument(Document):
    """Owners and phases of two recorded runs, each at its own peak. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.compare-recorded/1"
    TITLE: ClassVar[str] = "rlmem compare of two recorded runs"

    left: RecordedSide
    right: RecordedSide
    owners: Annotated[tuple[OwnerRow, ...], Meta(description="the largest difference first")]
    phases: tuple[PhaseDifference, ...]
    moments: TimelinesPart


def compare_recorded(documents: Sequence[RecordedDocument], labels: Sequence[str]) -> RecordedComparisonDocument:
    """Return two recorded runs side by side."""
    left, right = documents
    return RecordedComparisonDocument(
        left=_side(left, labels[0]),
        right=_side(right, labels[1]),
        owners=_owners(left.peak, right.peak),
        phases=compare_phases(*({row.phase: row.peak_bytes for row in side.phases} for side in (left, right))),
        moments=TimelinesPart(left=_points(left.moments), right=_points(right.moments)),
    )


def _side(document: RecordedDocument, label: str) -> RecordedSide:
    peak = document.peak
    is_known = peak.nbytes > 0
    return RecordedSide(
        label=label,
        target=document.target,
        status=document.status,
        ending=ending(document),
        state=document.judgement.state,
        wall_s=document.ended.wall_s if document.ended else None,
        peak_bytes=peak.nbytes if is_known else None,
        at_s=peak.at_s if is_known else None,
        phase=peak.phase if is_known else "",
        limit_bytes=peak.limit_bytes,
        owners_at_s=peak.owners_at_s if peak.owners else None,
        summary=_summary(document),
    )


def _summary(document: RecordedDocument) -> tuple[str, ...]:
    judgement = document.judgement
    lines = [ending(document), peak_sentence(document)]
    if document.postmortem:
        lines.append(f"why: {document.postmortem.cause}")
    if judgement.state != "unknown":
        lines.append(": ".join((judgement.state, *judgement.reasons[:1])))
    return tuple(lines)


def _owners(left: RecordedPeakPart, right: RecordedPeakPart) -> tuple[OwnerRow, ...]:
    """Return resident bytes by path, largest difference first; nothing where neither side knows its owners."""
    one, other = _by_path(left), _by_path(right)
    if one is None and other is None:
        return ()
    rows = [
        OwnerRow(path=path, left_bytes=_bytes(left, one, path), right_bytes=_bytes(right, other, path))
        for path in dict.fromkeys((*(one or ()), *(other or ())))
    ]
    rows.append(OwnerRow(path=REST, left_bytes=_rest(left, one), right_bytes=_rest(right, other)))
    return tuple(sorted(rows, key=lambda row: -abs((row.right_bytes or 0) - (row.left_bytes or 0))))


def _by_path(peak: RecordedPeakPart) -> dict[str, int] | None:
    """Return RAM by owner; None where nobody could be asked."""
    if not peak.owners:
        return None
    totals: dict[str, int] = {}
    for owner in peak.owners:
        if owner.device == "ram":
            path = OF_CHILD.sub(r"\1: ", owner.path)
            totals[path] = totals.get(path, 0) + owner.resident_bytes
    return totals


def _bytes(peak: RecordedPeakPart, by_path: dict[str, int] | None, path: str) -> int | None:
    """Return what one owner holds: nothing where it is missing, unless only the largest were kept."""
    if by_path is None or (path not in by_path and len(peak.owners) >= MOST_OWNERS):
        return None
    return by_path.get(path, 0)


def _rest(peak: RecordedPeakPart, by_path: dict[str, int] | None) -> int | None:
    """Return what is left; not known where owners, asked at another time, held more than the peak."""
    total = sum((by_path or {}).values())
    return peak.nbytes - total if by_path is not None and 0 < peak.nbytes >= total else None


def _points(moments: Sequence[MomentPart]) -> tuple[tuple[float, int], ...]:
    """Return time and size, evenly thinned; the first, the last and the largest stay."""
    points = [(moment.at_s, moment.tree_bytes) for moment in moments]
    if len(points) <= MOST_POINTS:
        return tuple(points)
    largest = max(range(len(points)), key=lambda index: points[index][1])
    step = (len(points) - 1) / (MOST_POINTS - 2)
    chosen = sorted({largest, *(round(number * step) for number in range(MOST_POINTS - 1))})
    return tuple(points[index] for index in chosen)
