"""The plan of a run as a document: the public contract ``rlmem.plan/1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.core.ledger import NOT_COUNTED, Entry, Ledger
from rlmem.core.plan import Plan
from rlmem.core.quantity import Quantity
from rlmem.core.schedule import schedule
from rlmem.documents.contract import Document
from rlmem.documents.parts import (
    Basis,
    Device,
    FindingPart,
    GrowthPart,
    MachinePart,
    PeakPart,
    Phase,
    Residency,
    Size,
    Verdict,
    finding_part,
    growth_part,
    machine_part,
    peak_part,
)
from rlmem.documents.placement import PlacementDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPart:
    """The run that was planned, with its framework's defaults, and where each value came from."""

    name: str
    spec: Mapping[str, Any]
    origins: Mapping[str, str]
    about: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPart:
    """A device with a limit for which no figure can be said; the exit code is 4."""

    device: Device
    limit_bytes: Size | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginPart:
    """A value of a formula, and where it came from."""

    name: str
    value: int
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPart:
    """A component's memory on one device, in one process, during one phase."""

    component: str
    device: Device
    process: str
    phase: Phase
    nbytes: Size
    low_bytes: Size
    high_bytes: Size
    basis: Basis
    residency: Annotated[Residency, Meta(description="'reserved' entries take no memory yet")]
    formula: str
    origin: tuple[OriginPart, ...]

    @property
    def counts(self) -> bool:
        """Whether the entry takes memory in its phase that nobody else can have."""
        return self.residency not in NOT_COUNTED

    def entry(self) -> Entry:
        """Return the ``Entry`` of this part; its amount is a number with a range, without the arithmetic behind it."""
        return Entry(
            component=self.component,
            device=self.device,
            process=self.process,
            phase=self.phase,
            amount=Quantity(self.nbytes, self.low_bytes, self.high_bytes),
            basis=self.basis,
            residency=self.residency,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulePart:
    """The training loop of an on-policy run."""

    samples_per_iteration: int
    batch_size: int
    minibatches_per_epoch: int
    last_minibatch: int
    epochs: int
    with_replacement: bool
    updates_per_iteration: int
    iterations: int | None
    checkpoint_timesteps: int | None
    checkpoint_iterations: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDocument(Document):
    """What a run needs, by component, device, process and phase. Sizes are integers in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.plan/1"
    TITLE: ClassVar[str] = "rlmem plan"

    target: TargetPart
    machine: MachinePart
    verdict: Verdict
    peaks: Annotated[
        tuple[PeakPart, ...], Meta(description="one row per device and phase, the largest of a device first")
    ]
    entries: Annotated[tuple[EntryPart, ...], Meta(description="what is live at each phase's largest moment")]
    findings: tuple[FindingPart, ...]
    growth: GrowthPart | None = None
    unknown: tuple[UnknownPart, ...] = ()
    summary: tuple[str, ...] = ()
    warnings: Annotated[tuple[str, ...], Meta(description="what the verdict does not say")] = ()
    schedule: Annotated[SchedulePart | None, Meta(description="null for runs that are not on-policy")] = None
    method: Annotated[
        str, Meta(description="'closed form': arithmetic over a description; 'dry run': read from the real thing")
    ] = "closed form"
    notes: Annotated[tuple[str, ...], Meta(description="how the figures came about")] = ()
    placement: Annotated[
        PlacementDocument | None, Meta(description="with --nodes: where it fits; see 'rlmem schema placement'")
    ] = None

    def __post_init__(self) -> None:
        """Check what types cannot say."""
        Document.__post_init__(self)
        if {peak.device for peak in self.peaks} != {peak.device for peak in self.tops}:
            raise ValueError("peaks: no row is marked as the peak")

    @property
    def tops(self) -> tuple[PeakPart, ...]:
        """The peak phase of each device."""
        return tuple(peak for peak in self.peaks if peak.is_peak)

    @property
    def devices(self) -> tuple[Device, ...]:
        """The devices that the run touches."""
        return tuple(dict.fromkeys(peak.device for peak in self.peaks))

    def ledger(self) -> Ledger:
        """Return the ``Ledger`` of this document; its amounts are numbers with a range, without the arithmetic behind them."""
        return Ledger(tuple(entry.entry() for entry in self.entries))

    def held(self, device: Device, phase: Phase) -> tuple[EntryPart, ...]:
        """Return what takes memory on a device in a phase."""
        return tuple(entry for entry in self.entries if (entry.device, entry.phase) == (device, phase) and entry.counts)


def plan_document(plan: Plan) -> PlanDocument:
    """Return a plan as the document that is printed, stored and served."""
    reasons: dict[int, tuple[str, tuple[OriginPart, ...]]] = {}
    limits = plan.budget.limits
    return PlanDocument(
        target=TargetPart(
            name=plan.spec.name,
            about=plan.spec.get("about"),
            spec=plan.spec.to_dict(),
            origins=dict(plan.spec.origins),
        ),
        machine=machine_part(plan.budget),
        verdict=plan.verdict,
        growth=growth_part(plan),
        unknown=tuple(
            UnknownPart(device=name, limit_bytes=limits[name], why=why) for name, why in plan.unknown.items()
        ),
        summary=plan.sentences,
        warnings=plan.warnings,
        peaks=tuple(peak_part(peak) for peak in plan.peaks),
        entries=tuple(_entry_part(entry, reasons) for entry in plan.ledger.entries),
        findings=tuple(finding_part(finding) for finding in plan.findings),
        schedule=_schedule_part(plan),
        method=plan.method,
        notes=plan.notes,
    )


def _entry_part(entry: Entry, reasons: dict[int, tuple[str, tuple[OriginPart, ...]]]) -> EntryPart:
    """An amount is in most phases as it was in the one before: its formula and origins are written out once."""
    number = id(entry.amount)
    if number not in reasons:
        terms = tuple(OriginPart(name=term.name, value=term.value, origin=term.origin) for term in entry.origin)
        reasons[number] = (entry.formula, terms)
    formula, origin = reasons[number]
    return EntryPart(
        component=entry.component,
        device=entry.device,
        process=entry.process,
        phase=entry.phase,
        nbytes=entry.nbytes,
        low_bytes=entry.amount.low,
        high_bytes=entry.amount.high,
        basis=entry.basis,
        residency=entry.residency,
        formula=formula,
        origin=origin,
    )


def _schedule_part(plan: Plan) -> SchedulePart | None:
    loop = schedule(plan.spec)
    if loop is None:
        return None
    return SchedulePart(
        samples_per_iteration=loop.samples,
        batch_size=loop.batch,
        minibatches_per_epoch=loop.minibatches,
        last_minibatch=loop.remainder or loop.batch,
        epochs=loop.epochs,
        with_replacement=loop.with_replacement,
        updates_per_iteration=loop.updates,
        iterations=loop.iterations,
        checkpoint_timesteps=loop.save_timesteps,
        checkpoint_iterations=loop.save_iterations,
    )
