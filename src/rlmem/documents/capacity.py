"""How far a knob can be turned, as documents: a curve over one machine, and a table over several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.core.plan import Plan
from rlmem.documents.contract import Document, Plain
from rlmem.documents.parts import Device, PeakPart, Size, Verdict, peak_part

#: The largest value that fits is among those of a curve, unless it is this many times the run's own.
FURTHEST = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuePart:
    """The run with one value of the knob."""

    value: int
    verdict: Verdict
    peaks: Annotated[tuple[PeakPart, ...], Meta(description="the peak phase of each device, the deciding one first")]

    def peak(self, device: Device) -> PeakPart | None:
        """Return the peak of one device; ``None`` where the run does not touch it."""
        return next((peak for peak in self.peaks if peak.device == device), None)


def value_part(value: int, plan: Plan) -> ValuePart:
    """Return what a plan says of one value."""
    tops = sorted(plan.tops, key=lambda top: top is not plan.deciding)
    return ValuePart(value=value, verdict=plan.verdict, peaks=tuple(peak_part(top) for top in tops))


def without_limits(part: ValuePart) -> ValuePart:
    """Return a value whose peaks are for no machine in particular."""
    return replace(part, peaks=tuple(replace(peak, limit_bytes=None) for peak in part.peaks))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCurvePart:
    """The peak over the run's main knob, and the largest value whose upper bound fits."""

    knob: str
    now: Annotated[int, Meta(description="the run's own value")]
    rows: Annotated[tuple[ValuePart, ...], Meta(description="by value, the run's own among them")]
    largest_safe: Annotated[int | None, Meta(description="null: none fits, or there is no limit")]
    unlimited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCurveDocument(Document):
    """How far the main knob of a run can be turned on one machine."""

    SCHEMA: ClassVar[str] = "rlmem.capacity-curve/1"
    TITLE: ClassVar[str] = "rlmem serve: /api/capacity"

    target: Annotated[str, Meta(description="the run's name")]
    machine: str
    curve: Annotated[CapacityCurvePart | None, Meta(description="null: the run cannot be planned changed")]


def with_peaks(curve: Plain | None) -> Plain | None:
    """Return a curve of version 1 of reports as it is now; it told the phase of the deciding device only."""
    if curve is None:
        return None
    sizes = ("device", "phase", "low_bytes", "expected_bytes", "high_bytes", "limit_bytes")
    rows = [
        {"value": row["value"], "verdict": row["verdict"], "peaks": [{name: row[name] for name in sizes}]}
        for row in curve["rows"]
    ]
    return {**curve, "rows": rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityTargetPart:
    """The run whose knob is turned."""

    name: str
    about: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCostPart:
    """What each one of the knob costs on a device, and what is there without any."""

    device: Device
    bytes: Annotated[int | None, Meta(description="null: only one value was planned")]
    fixed_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCapacityPart:
    """How far the knob can be turned on one machine."""

    name: str
    ram_bytes: Size | None
    vram_bytes: Size | None
    largest: Annotated[int | None, Meta(description="whose expected peak fits; null: none, or there is no limit")]
    largest_safe: Annotated[int | None, Meta(description="whose upper bound fits")]
    useful: Annotated[int | None, Meta(description="the largest useful value; a larger one changes nothing")] = None
    unlimited: bool = False
    needs: Annotated[Mapping[Device, Size], Meta(description="expected peaks at the largest value")] = field(
        default_factory=dict
    )
    verdicts: Annotated[Mapping[str, Verdict], Meta(description="by value, of those that were asked for")] = field(
        default_factory=dict
    )


def _from_first(data: Plain) -> Plain:
    """Peaks of ``rlmem.capacity/1`` were objects by device."""
    return {
        **data,
        "values": [
            {**row, "peaks": [{"device": device, **peak} for device, peak in row["peaks"].items()]}
            for row in data["values"]
        ],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityDocument(Document):
    """Peaks at each value, the cost of one more, and per machine the largest value and each value's verdict."""

    SCHEMA: ClassVar[str] = "rlmem.capacity/2"
    TITLE: ClassVar[str] = "rlmem capacity"
    OLDER: ClassVar[Any] = {"rlmem.capacity/1": _from_first}

    target: CapacityTargetPart
    vary: Annotated[str, Meta(description="the field that is turned")]
    per_unit: tuple[UnitCostPart, ...]
    values: Annotated[tuple[ValuePart, ...], Meta(description="planned for the first machine, without its limits")]
    machines: tuple[MachineCapacityPart, ...]
