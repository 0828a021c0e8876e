"""Two runs side by side as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Device, Phase, Size, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class SidePart:
    """One of the two."""

    label: str
    name: str
    verdict: Verdict
    summary: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingDifference:
    """A setting in which the two differ."""

    path: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentDifference:
    """A component at the peak of each side."""

    component: str
    left_bytes: Size
    right_bytes: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDifference:
    """What one device holds, each side at its own peak; a phase is null where a side does not touch the device."""

    device: Device
    left_phase: Phase | None
    right_phase: Phase | None
    left_bytes: Size
    right_bytes: Size
    components: Annotated[tuple[ComponentDifference, ...], Meta(description="the largest difference first")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonDocument(Document):
    """Two ledgers side by side: settings that differ, and components that differ at the peak of each device."""

    SCHEMA: ClassVar[str] = "rlmem.compare/1"
    TITLE: ClassVar[str] = "rlmem compare, of plans"

    left: SidePart
    right: SidePart
    settings: tuple[SettingDifference, ...]
    devices: tuple[DeviceDifference, ...]
