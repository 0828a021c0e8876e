"""Two ledgers side by side as a document: predicted or measured, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from rlmem.core.fields import FIELDS
from rlmem.core.ledger import DEVICES, Ledger
from rlmem.documents.contract import Document
from rlmem.documents.parts import Device, Phase, Size, Verdict

Source = Literal["predicted", "measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePart:
    """One of the two."""

    label: str
    name: str
    verdict: Annotated[Verdict | None, Meta(description="of a plan; null where nothing was judged")] = None
    summary: tuple[str, ...] = ()
    source: Source = "predicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting in which the two differ."""

    path: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentDifference:
    """A component on both sides; null where a side was measured and has nothing of that name."""

    component: str
    left_bytes: Size | None
    right_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDifference:
    """What one device holds; a phase is null where a side does not touch the device, or was not measured there."""

    device: Device
    left_phase: Phase | None
    right_phase: Phase | None
    left_bytes: Size | None
    right_bytes: Size | None
    components: Annotated[tuple[ComponentDifference, ...], Meta(description="the largest difference first")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseDifference:
    """The largest size of RAM in one phase on both sides; null where a side was never in it, or not measured there."""

    phase: str
    left_bytes: Size | None
    right_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDocument(Document):
    """Two ledgers side by side: settings that differ, and components that differ at the peak of each device."""

    SCHEMA: ClassVar[str] = "rlmem.compare/1"
    TITLE: ClassVar[str] = "rlmem compare"

    left: SidePart
    right: SidePart
    settings: tuple[SettingDifference, ...]
    devices: tuple[DeviceDifference, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison.

    Attributes:
        about: what is said of it.
        ledger: what it needs or holds.
        settings: of the run, nested as in a run file; empty where they are not known.
        is_moment: whether it is one look at a run; the other side is then taken in the same phase, not at its peak.
    """

    about: SidePart
    ledger: Ledger
    settings: Mapping[str, Any] | None = None
    is_moment: bool = False

    @property
    def absent(self) -> int | None:
        """What a component that is not in the ledger takes: nothing in a plan, and nobody knows in a measurement."""
        return 0 if self.about.source == "predicted" else None


def compare_sides(left: Side, right: Side) -> ComparisonDocument:
    """Return the settings that differ, and the components of both, device by device.

    Predicted and measured names are made the same: where one side has ``runtime`` and the other its parts, the parts are
    added up.
    """
    known = left.settings is not None and right.settings is not None
    return ComparisonDocument(
        left=left.about,
        right=right.about,
        settings=tuple(_settings(left.settings or {}, right.settings or {})) if known else (),
        devices=tuple(_compare_device(device, left, right) for device in DEVICES if _is_touched(device, left, right)),
    )


def compare_phases(left: Mapping[str, int], right: Mapping[str, int]) -> tuple[PhaseDifference, ...]:
    """Return the phases of both sides, by the sizes that were measured in them."""
    return tuple(
        PhaseDifference(phase=phase, left_bytes=left.get(phase), right_bytes=right.get(phase))
        for phase in dict.fromkeys((*left, *right))
    )


def _compare_device(device: Device, left: Side, right: Side) -> DeviceDifference:
    """Return what one device holds on both sides, line by line."""
    phases = _phases(device, left, right)
    ledgers = [side.ledger.only(device=device) for side in (left, right)]
    if left.about.source != right.about.source:
        ledgers = [ledgers[0].named_as(ledgers[1]), ledgers[1].named_as(ledgers[0])]
    sizes = [_components(ledger, phase) for ledger, phase in zip(ledgers, phases, strict=True)]
    rows = [
        ComponentDifference(
            component=name,
            left_bytes=sizes[0].get(name, left.absent),
            right_bytes=sizes[1].get(name, right.absent),
        )
        for name in dict.fromkeys((*sizes[0], *sizes[1]))
    ]
    rows.sort(key=lambda row: -abs((row.right_bytes or 0) - (row.left_bytes or 0)))
    totals = [
        sum(parts.values()) if phase else side.absent
        for side, parts, phase in zip((left, right), sizes, phases, strict=True)
    ]
    return DeviceDifference(
        device=device,
        left_phase=phases[0],
        right_phase=phases[1],
        left_bytes=totals[0],
        right_bytes=totals[1],
        components=tuple(rows),
    )


def _is_touched(device: Device, left: Side, right: Side) -> bool:
    return device in left.ledger.devices or device in right.ledger.devices


def _phases(device: Device, left: Side, right: Side) -> tuple[Phase | None, Phase | None]:
    """Return the phase of each side: its peak, or the one that the other side was looked at in."""
    own = [_top(side.ledger, device) for side in (left, right)]
    for one, other in ((left, 1), (right, 0)):
        phase = own[1 - other]
        theirs = (left, right)[other]
        if one.is_moment and not theirs.is_moment and phase in theirs.ledger.only(device=device).phases:
            own[other] = phase
    return own[0], own[1]


def _top(ledger: Ledger, device: Device) -> Phase | None:
    return next((peak.phase for peak in ledger.peaks() if peak.device == device and peak.is_peak), None)


def _components(ledger: Ledger, phase: Phase | None) -> dict[str, int]:
    """Return what each component holds in a phase."""
    totals: dict[str, int] = {}
    for entry in ledger.only(phase=phase).entries if phase else ():
        if entry.counts:
            totals[entry.component] = totals.get(entry.component, 0) + entry.nbytes
    return totals


def _settings(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[SettingDifference]:
    for path in (field.path for field in FIELDS if field.path not in ("name", "about")):
        values = _value(left, path), _value(right, path)
        if values[0] != values[1]:
            yield SettingDifference(path=path, left=values[0], right=values[1])


def _value(settings: Mapping[str, Any], path: str) -> Any:
    value: Any = settings
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
