"""A sweep as a document: its points, one row per combination of values, the lines through them (``rlmem.sweep/1``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.core.line_fit import LineFit, fit_lines
from rlmem.core.points import Axis, Point, PointOptions, PredictedPeak, Status, Values, axes_text
from rlmem.documents.contract import Document
from rlmem.documents.parts import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredComponent:
    """A component that was measured by name, the plan's figure beside it."""

    component: str
    measured_bytes: Size
    predicted_bytes: Size | None

    @property
    def error(self) -> float | None:
        """How far the prediction is off, as a share of the truth; ``None`` where there is none of both."""
        if self.predicted_bytes is None or not self.measured_bytes:
            return None
        return self.predicted_bytes / self.measured_bytes - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """Repeats of the same values together."""

    values: Values
    status: Annotated[Status, Meta(description="the most frequent of what did not end well, else ok")]
    runs: int
    ok_runs: int
    measured_bytes: Annotated[Size | None, Meta(description="the median of what ended well")]
    least_bytes: Size | None
    most_bytes: Size | None
    reached_bytes: Annotated[Size | None, Meta(description="the most of what did not end well")]
    predicted: PredictedPeak | None
    error: Annotated[float | None, Meta(description="expected / measured - 1")]
    wall_s: float
    note: str
    phases: Mapping[str, int]
    components: tuple[MeasuredComponent, ...]
    vram: Mapping[str, int]
    nodes: tuple[str, ...]

    @property
    def is_over(self) -> bool:
        """Whether a repeat took more than the prediction's upper bound."""
        return self.predicted is not None and self.most_bytes is not None and self.most_bytes > self.predicted.high


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLines:
    """Lines through what was measured, and through what was predicted for the same values."""

    measured: tuple[LineFit, ...] = ()
    predicted: tuple[LineFit, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepDocument(Document):
    """What a target needed, measured in one fresh process a point. Sizes are integers in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.sweep/1"
    TITLE: ClassVar[str] = "rlmem sweep"
    COMPUTED: ClassVar[frozenset[str]] = frozenset({"rows", "fits"})

    run: str
    target: str
    command: tuple[str, ...]
    started: str
    status: str
    machine: Mapping[str, Any]
    axes: tuple[Axis, ...]
    repeat: int
    options: PointOptions
    points: Annotated[
        tuple[Point, ...],
        Meta(
            description="one fresh process each; peak_bytes is the peak PSS of its tree, node the one of a cluster that "
            "ran it"
        ),
    ]
    rows: Annotated[tuple[SweepRow, ...], Meta(description="repeats of the same values together")] = field(
        init=False, default=()
    )
    fits: Annotated[
        SweepLines,
        Meta(
            description="fixed_bytes + bytes_each of each axis, over points that ended well; margins are half of a "
            "95 % interval, null where there are too few points"
        ),
    ] = field(init=False, default_factory=SweepLines)

    def __post_init__(self) -> None:
        """Make the rows and the lines of the points."""
        Document.__post_init__(self)
        object.__setattr__(self, "rows", tuple(_row(group) for group in _groups(self.points)))
        object.__setattr__(self, "fits", _lines(self.points))

    @property
    def is_ok(self) -> bool:
        """Whether every point ended well."""
        return all(point.is_ok for point in self.points)

    def middle(self, values: Values) -> Point | None:
        """Return the repeat of some values that their row tells phases and components of."""
        key = axes_text(values)
        return _middle([point for point in self.points if axes_text(point.values) == key])

    @property
    def versions(self) -> dict[str, str]:
        """Versions that were measured with; an environment that changed on the way has several of one package."""
        texts: dict[str, dict[str, None]] = {}
        for point in self.points:
            for name, text in point.versions.items():
                texts.setdefault(name, {})[text] = None
        return {name: " and ".join(several) for name, several in texts.items()}


def in_order(axes: Sequence[Axis], points: Iterable[Point]) -> tuple[Point, ...]:
    """Return points in the order of the axes' values, whenever they were measured."""
    places = {axis.name: {value: n for n, value in enumerate(axis.values)} for axis in axes}
    return tuple(
        sorted(
            points,
            key=lambda point: (
                *(order.get(point.values.get(name, ""), len(order)) for name, order in places.items()),
                point.repeat,
            ),
        )
    )


def _groups(points: Iterable[Point]) -> list[list[Point]]:
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(axes_text(point.values), []).append(point)
    return list(groups.values())


def _row(group: Sequence[Point]) -> SweepRow:
    """Repeats of the same values as one row: the median of what ended well, and the spread."""
    ended = [point for point in group if point.is_ok and point.peak_bytes is not None]
    sizes = sorted(point.peak_bytes for point in ended if point.peak_bytes is not None)
    middle = round(median(sizes)) if sizes else None
    others = [point for point in group if not point.is_ok]
    told = next((point for point in (*others, *ended) if point.note), None)
    best = _middle(group)
    predicted = next((point.predicted for point in group if point.predicted), None)
    return SweepRow(
        values=group[0].values,
        status=Counter(point.status for point in others).most_common(1)[0][0] if others else "ok",
        runs=len(group),
        ok_runs=len(ended),
        measured_bytes=middle,
        least_bytes=sizes[0] if sizes else None,
        most_bytes=sizes[-1] if sizes else None,
        reached_bytes=max((point.peak_bytes for point in others if point.peak_bytes), default=None),
        predicted=predicted,
        error=predicted.expected / middle - 1 if predicted and middle else None,
        wall_s=max(point.wall_s for point in group),
        note=told.note if told else "",
        phases=best.phases if best else {},
        components=_components(best or group[0]),
        vram=best.vram if best else {},
        nodes=tuple(sorted({point.node for point in group if point.node is not None})),
    )


def _middle(group: Sequence[Point]) -> Point | None:
    """Return the repeat whose peak is next to the median of those that ended well; ``None`` where none did."""
    ended = [(point.peak_bytes, point) for point in group if point.is_ok and point.peak_bytes is not None]
    if not ended:
        return None
    middle = round(median(nbytes for nbytes, _ in ended))
    return min(ended, key=lambda pair: abs(pair[0] - middle))[1]


def _components(point: Point) -> tuple[MeasuredComponent, ...]:
    """What was measured by name, the plan's figure beside it; what only the plan has is not measured, hence left out."""
    return tuple(
        MeasuredComponent(component=name, measured_bytes=nbytes, predicted_bytes=point.predicted_components.get(name))
        for name, nbytes in sorted(point.components.items(), key=lambda item: -item[1])
    )


def _lines(points: Sequence[Point]) -> SweepLines:
    measured = [(point.values, point.peak_bytes) for point in points if point.is_ok and point.peak_bytes is not None]
    expected = {
        axes_text(point.values): (point.values, point.predicted.expected) for point in points if point.predicted
    }
    return SweepLines(measured=fit_lines(measured), predicted=fit_lines(list(expected.values())))
