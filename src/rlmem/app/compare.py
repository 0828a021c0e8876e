"""Two ledgers side by side, line by line, each at its own peak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlmem.documents.comparison import (
    ComparisonDocument,
    ComponentDifference,
    DeviceDifference,
    SettingDifference,
    SidePart,
)
from rlmem.documents.plan import PlanDocument
from rlmem.fields import FIELDS
from rlmem.ledger import DEVICES, Ledger, Peak


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a comparison: what is said of it, its settings as they are nested in a run file, and its ledger."""

    about: SidePart
    settings: Mapping[str, Any]
    ledger: Ledger


def plan_side(document: PlanDocument, label: str) -> Side:
    """Return a plan as one side of a comparison."""
    about = SidePart(label=label, name=document.target.name, verdict=document.verdict, summary=document.summary)
    return Side(about=about, settings=document.target.spec, ledger=document.ledger())


def compare_sides(left: Side, right: Side) -> ComparisonDocument:
    """Return the settings that differ, and the components of both at the peak of each device."""
    tops = tuple({peak.device: peak for peak in side.ledger.peaks() if peak.is_peak} for side in (left, right))
    return ComparisonDocument(
        left=left.about,
        right=right.about,
        settings=tuple(_settings(left.settings, right.settings)),
        devices=tuple(
            _device(device, (left.ledger, tops[0].get(device)), (right.ledger, tops[1].get(device)))
            for device in DEVICES
            if device in tops[0] or device in tops[1]
        ),
    )


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


def _device(device: str, left: tuple[Ledger, Peak | None], right: tuple[Ledger, Peak | None]) -> DeviceDifference:
    sizes = [_components(ledger, top) if top else {} for ledger, top in (left, right)]
    rows = [
        ComponentDifference(component=name, left_bytes=sizes[0].get(name, 0), right_bytes=sizes[1].get(name, 0))
        for name in dict.fromkeys((*sizes[0], *sizes[1]))
    ]
    rows.sort(key=lambda row: -abs(row.right_bytes - row.left_bytes))
    tops = left[1], right[1]
    return DeviceDifference(
        device=device,
        left_phase=tops[0].phase if tops[0] else None,
        right_phase=tops[1].phase if tops[1] else None,
        left_bytes=tops[0].expected_bytes if tops[0] else 0,
        right_bytes=tops[1].expected_bytes if tops[1] else 0,
        components=tuple(rows),
    )


def _components(ledger: Ledger, top: Peak) -> dict[str, int]:
    """Return what each component holds on the device and in the phase of a peak."""
    totals: dict[str, int] = {}
    for entry in ledger.only(device=top.device, phase=top.phase).entries:
        if entry.counts:
            totals[entry.component] = totals.get(entry.component, 0) + entry.nbytes
    return totals
