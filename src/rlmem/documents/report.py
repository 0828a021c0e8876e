"""What an HTML report of a planned run carries inside, and the assessment of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.documents.capacity import CapacityCurvePart, with_peaks
from rlmem.documents.contract import Document
from rlmem.documents.fit import RemedyPart
from rlmem.documents.growth import GrowthCurvePart
from rlmem.documents.parts import Size
from rlmem.documents.plan import PlanDocument
from rlmem.documents.sweep import SweepDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPart:
    """Where and with what a report was made."""

    machine: Mapping[str, Any]
    versions: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument(Document):
    """Everything a report shows of a planned run."""

    SCHEMA: ClassVar[str] = "rlmem.report/2"
    TITLE: ClassVar[str] = "What an HTML report of a planned run carries inside"
    OLDER: ClassVar[Any] = {"rlmem.report/1": lambda data: {**data, "capacity": with_peaks(data["capacity"])}}

    written: str
    command: Annotated[tuple[str, ...], Meta(description="that made it")]
    plan: PlanDocument
    growth: Annotated[GrowthCurvePart | None, Meta(description="null when nothing fills")]
    measured: Annotated[SweepDocument | None, Meta(description="the newest sweep of the target; null without one")]
    differs: Annotated[tuple[str, ...], Meta(description="settings in which the measurement was of another run")] = ()
    capacity: Annotated[
        CapacityCurvePart | None, Meta(description="peaks over the main knob; null where it cannot be turned")
    ]
    remedies: Annotated[tuple[RemedyPart, ...], Meta(description="each by itself, the largest saving first")]
    environment: EnvironmentPart


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPart:
    """What one of a kind costs: a transition, a rollout step, a sample of a batch, an agent, an environment."""

    unit: str
    count: int
    bytes_each: Size
    nbytes: Size
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessmentDocument(Document):
    """The plan of a run with what one of each costs, and how far its main knob can be turned."""

    SCHEMA: ClassVar[str] = "rlmem.assessment/2"
    TITLE: ClassVar[str] = "rlmem assess"
    OLDER: ClassVar[Any] = {"rlmem.assessment/1": lambda data: {**data, "capacity": with_peaks(data["capacity"])}}

    plan: PlanDocument
    units: tuple[UnitPart, ...]
    capacity: CapacityCurvePart | None
