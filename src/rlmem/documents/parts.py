"""Parts that several documents have: peaks, findings, machines, holdings. There is one of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from msgspec import Meta

from rlmem.core.findings import SEVERITIES, Advice, Finding
from rlmem.core.holdings import WAYS, GpuShare, Holding, Portion, Progress
from rlmem.core.ledger import BASES, DEVICES, PHASES, RESIDENCIES, Leak, Peak
from rlmem.core.plan import VERDICTS, Budget, Plan

PartT = TypeVar("PartT")
#: Bytes; unknown ones are ``None``, never 0.
Size = Annotated[int, Meta(ge=0)]
if TYPE_CHECKING:  # to the type checker they are text; a reader of JSON takes only the words of the table
    Device: TypeAlias = str
    Phase: TypeAlias = str
    Basis: TypeAlias = str
    Residency: TypeAlias = str
    Verdict: TypeAlias = str
    Severity: TypeAlias = str
    Way: TypeAlias = str
else:
    Device, Phase, Basis, Residency = Literal[DEVICES], Literal[PHASES], Literal[BASES], Literal[RESIDENCIES]
    Verdict, Severity, Way = Literal[VERDICTS], Literal[SEVERITIES], Literal[WAYS]


def part_of(kind: type[PartT], noun: object, **more: Any) -> PartT:
    """Return a part whose fields are the noun's of the same names, and ``more``."""
    names = (item.name for item in fields(kind) if item.name not in more)  # type: ignore[arg-type]
    return kind(**{name: getattr(noun, name) for name in names}, **more)


def core_object_of(kind: type[PartT], part: object, **more: Any) -> PartT:
    """Return the core object whose fields are the part's of the same names, and ``more``."""
    return part_of(kind, part, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakPart:
    """What one device needs in one phase, against its limit."""

    device: Device
    phase: Phase
    low_bytes: Annotated[
        Size,
        Meta(description="the largest lower bound over the moments of the phase; can exceed the sum of the entries'"),
    ]
    expected_bytes: Size
    high_bytes: Size
    limit_bytes: Size | None = None
    is_peak: Annotated[bool, Meta(description="whether it is the largest phase of its device")] = True

    def peak(self, leak: Leak | None = None) -> Peak:
        """Return the ``Peak`` of this part, to judge it and to say it in a sentence; ``leak`` is the one of its document."""
        return core_object_of(Peak, self, leak=leak)


def peak_part(peak: Peak) -> PeakPart:
    """Return a peak as documents have it."""
    return part_of(PeakPart, peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthPart:
    """A leak that a dry run saw: what each update (or step) adds and nothing frees."""

    bytes_each: Size
    low_bytes: Size
    high_bytes: Size
    per: Literal["update", "step", "optimizer step"]
    rounds: Annotated[int, Meta(description="how many were seen")]
    rise_bytes: Annotated[int, Meta(description="what those added")]
    owner: Annotated[str | None, Meta(description="who holds it")] = None
    left: Annotated[float | None, Meta(description="how many are left until the loop ends; null: not known")] = None
    kind: Annotated[str, Meta(description="the owner's type")] = ""
    keeps_graphs: bool = False

    def leak(self) -> Leak:
        """Return the ``Leak`` of this part."""
        return core_object_of(Leak, self)


def growth_part(plan: Plan) -> GrowthPart | None:
    """Return the leak of a plan as documents have it; ``None`` where the run does not grow."""
    peak = plan.top("ram")
    if peak is None or peak.leak is None:
        return None
    return part_of(GrowthPart, peak.leak)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingPart:
    """What one rule says of a plan, a script or a running process."""

    code: str
    name: str
    severity: Severity
    title: str
    saves_bytes: Annotated[int | None, Meta(description="what the remedy saves at the peak; null: not known")] = None
    location: Annotated[str | None, Meta(description="the field or component it is about")] = None
    remedy: str | None = None
    changes: Annotated[Mapping[str, Any], Meta(description="the remedy as fields of the run")] = field(
        default_factory=dict
    )
    line: Annotated[int | None, Meta(description="of the script that was planned")] = None
    costs_bytes: Annotated[int | None, Meta(description="what the mistake costs as things are")] = None
    costs_per: Annotated[str, Meta(description="each one costs as much; empty: in all")] = ""


def finding_part(finding: Finding) -> FindingPart:
    """Return a finding as documents have it."""
    return part_of(FindingPart, finding, **_finding_parts(finding))


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvicePart(FindingPart):
    """What one rule says of the run that a process was started as."""

    returns_bytes: Annotated[int | None, Meta(description="what the remedy would give back of what is resident now")]


def advice_part(advice: Advice) -> AdvicePart:
    """Return advice as documents have it."""
    more = _finding_parts(advice.finding)
    return part_of(AdvicePart, advice.finding, returns_bytes=advice.returns_bytes, **more)


def _finding_parts(finding: Finding) -> dict[str, Any]:
    return {"changes": dict(finding.changes), "line": finding.place.line if finding.place else None}


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePart:
    """What a run may use, and where each limit comes from."""

    name: str
    ram_bytes: Size | None = None
    vram_bytes: Size | None = None
    unified: Annotated[bool, Meta(description="RAM and VRAM are one pool")] = False
    cores: int | None = None
    ram_source: str | None = None
    vram_source: str | None = None


def machine_part(budget: Budget) -> MachinePart:
    """Return a budget as documents have it."""
    return MachinePart(
        name=budget.name,
        ram_bytes=budget.ram_bytes,
        vram_bytes=budget.vram_bytes,
        unified=budget.unified,
        cores=budget.cores,
        ram_source=budget.ram_source or None,
        vram_source=budget.vram_source or None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingPart:
    """One owner in a running process: an object by its path from a variable, and the memory beneath it."""

    path: str
    kind: Annotated[str, Meta(description="array, tensor, container, store, graph")]
    type: str
    nbytes: Annotated[Size, Meta(description="allocated")]
    resident_bytes: Annotated[Size, Meta(description="what of that is in memory")]
    filled: Annotated[int | None, Meta(description="rows used, as the container says")] = None
    capacity: Annotated[int | None, Meta(description="rows there is room for; null: no bound")] = None
    run_rows: Annotated[int | None, Meta(description="rows used when the run ends, where that comes first")] = None
    estimated: Annotated[bool, Meta(description="from a sample of a long container")] = False
    device: Device = "ram"
    note: str = ""
    graphs: Annotated[int, Meta(description="tensors in it that keep their autograd graph")] = 0
    graph_bytes: int = 0
    graph_more: Annotated[bool, Meta(description="longer than what was looked at: sizes are the least")] = False
    added_at: Annotated[str, Meta(description="the line that adds to it")] = ""
    file: Annotated[str, Meta(description="shared memory or the file that most of it lies in")] = ""
    low_bytes: int | None = None
    high_bytes: int | None = None
    has_transitions: Annotated[bool | None, Meta(description="whether its elements are steps of an environment")] = None
    growth_bytes: Annotated[int | None, Meta(description="to come until the run ends; null: no end known")] = None
    full_growth_bytes: Annotated[int | None, Meta(description="the same in a run that fills it")] = None

    def holding(self) -> Holding:
        """Return the ``Holding`` of this part."""
        return core_object_of(Holding, self)


def holding_part(holding: Holding, **more: Any) -> HoldingPart:
    """Return a holding as documents have it; ``more`` stands in place of the holding's own fields."""
    return part_of(HoldingPart, holding, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortionPart:
    """Resident memory of one class (``heap``, ``library code``) that no named owner has."""

    name: str
    resident_bytes: Size
    detail: str = ""


def portion_part(portion: Portion) -> PortionPart:
    """Return a portion as documents have it."""
    return part_of(PortionPart, portion)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSharePart:
    """VRAM of one process on one GPU."""

    gpu: str
    used_bytes: Annotated[Size | None, Meta(description="as the driver says")] = None
    allocated_bytes: Annotated[Size | None, Meta(description="as torch says, where the process has an agent")] = None
    reserved_bytes: Annotated[Size | None, Meta(description="the same")] = None
    other_bytes: Annotated[Size | None, Meta(description="the context and what torch cannot see")] = None


def gpu_share_part(share: GpuShare) -> GpuSharePart:
    """Return VRAM of a process as documents have it."""
    return part_of(GpuSharePart, share)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPart:
    """How far the training is, as its own objects say: steps over all of its environments."""

    step: int
    total: int | None = None
    source: str = ""
    n_envs: int = 1


def progress_part(progress: Progress | None) -> ProgressPart | None:
    """Return the progress of a training as documents have it."""
    return part_of(ProgressPart, progress) if progress else None
