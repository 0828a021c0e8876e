"""A run that ``rlmem run`` recorded, as a document, and what the store keeps of one under way."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.core.components import component_of, process_of
from rlmem.core.ledger import PHASES, Entry, Ledger, merge
from rlmem.core.memory_classes import UNKNOWN
from rlmem.core.quantity import Quantity
from rlmem.core.signals import signal_name
from rlmem.documents.capacity import CapacityCurvePart, with_peaks
from rlmem.documents.contract import Document, Plain
from rlmem.documents.fit import RemedyPart
from rlmem.documents.moment import JudgementPart, MemberPart, MomentPart, sparse
from rlmem.documents.parts import HoldingPart, Size
from rlmem.documents.plan import PlanDocument
from rlmem.units import format_count, format_duration, format_size

#: Owners kept with a moment, largest first; hundreds of small ones would fill the store.
MOST_OWNERS = 24
#: Owners with less than this of the peak are not worth a word in its line.
SMALL_SHARE = 0.01
#: Owners in other processes begin with who these are; their numbers are never the same twice.
OF_CHILD = re.compile(r"^([\w-]+) \d+: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPart:
    """The limits that were asked for, and what is done when they come near."""

    max_ram_bytes: Size | None = None
    max_vram_bytes: Size | None = None
    max_threads: int | None = None
    warn_at: Annotated[float | None, Meta(description="share of the limit")] = None
    act_at: Annotated[float | None, Meta(description="share of the limit")] = None
    action: Annotated[str, Meta(description="none, stop, checkpoint or signal")] = "none"
    signal: int | None = None
    grace_s: float | None = None
    checkpoint_to: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPart:
    """What rlmem said while the run went on."""

    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeathPart:
    """An exception that nobody caught, as the process left it."""

    pid: int
    type: str
    message: str = ""
    kinds: Annotated[tuple[str, ...], Meta(description="names of its type and of its bases")] = ()
    where: Annotated[str | None, Meta(description="the innermost frame")] = None
    line: Annotated[str | None, Meta(description="the innermost frame in the program's own files")] = None
    remote: Annotated[str | None, Meta(description="the traceback of another process that it was brought from")] = None
    thread: str = ""
    worker: str | None = None
    phase: str = ""
    step: int | None = None
    limits: Annotated[Mapping[str, int], Meta(description="resource limits on memory, by name")] = field(
        default_factory=dict
    )
    kernel: Annotated[Mapping[str, int], Meta(description="what the kernel goes by when it promises memory")] = field(
        default_factory=dict
    )
    at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitPart:
    """A process that a signal ended, and what was seen of it when it was last looked at."""

    pid: int
    signal: int
    sender: Annotated[int | None, Meta(description="the process of the run that sent it; null: somebody else")] = None
    command: str = ""
    is_main: bool = False
    held_bytes: int | None = None
    space_bytes: Annotated[int | None, Meta(description="the most address space it had")] = None
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerGainPart:
    """What one owner, or the rest, gained in the last part of a run."""

    name: str
    nbytes: int
    now_bytes: int
    items: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PostMortemPart:
    """Why a run died of memory, and what would have fit."""

    kind: Annotated[str, Meta(description="limit, oom-killer, memory-error, cuda-oom, killed or aborted")]
    cause: str
    limit_bytes: int | None = None
    limit_name: str = ""
    todo: Annotated[str, Meta(description="what to do, beside changes that make the run smaller")] = ""
    window_s: Annotated[float, Meta(description="seconds that 'grown' looks back")] = 0.0
    grown: tuple[OwnerGainPart, ...] = ()
    changes: Annotated[tuple[str, ...], Meta(description="under which it would have fit")] = ()
    advice: Annotated[tuple[str, ...], Meta(description="what else makes it smaller, enough or not")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakMomentPart:
    """The largest moment; ``members`` are the processes at the largest look, whether or not that is this moment."""

    nbytes: int = 0
    at_s: float = 0.0
    phase: str = ""
    step: int | None = None
    seen: Annotated[bool, Meta(description="false: between two samples; taken from the kernel's high-water mark")] = (
        True
    )
    members: Annotated[
        tuple[MemberPart, ...],
        Meta(description="processes at the largest look, largest first; PSS and USS as last read"),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPeakPart(PeakMomentPart):
    """The largest moment, its limit, and the owners as they were asked nearest to it."""

    limit_bytes: Size | None = None
    limit_name: str = ""
    owners_at_s: float | None = None
    owners: tuple[HoldingPart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftoverPart:
    """A process that the command left behind."""

    pid: int
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndPart:
    """How a run ended."""

    returncode: Annotated[int | None, Meta(description="of the command; negative: the signal that ended it")]
    exit_code: Annotated[int, Meta(description="as a shell would say it")]
    status: str
    wall_s: float
    peak: PeakMomentPart
    events: tuple[EventPart, ...] = ()
    deaths: tuple[DeathPart, ...] = ()
    exits: Annotated[tuple[ExitPart, ...], Meta(description="processes that a signal ended and rlmem did not")] = ()
    postmortem: PostMortemPart | None = None
    left: Annotated[tuple[int, ...], Meta(description="processes that it left behind and that stay")] = ()
    cleared: Annotated[tuple[LeftoverPart, ...], Meta(description="those that rlmem ended")] = ()
    signals: tuple[str, ...] = ()
    checkpoint: Annotated[Mapping[str, Any] | None, Meta(description="what became of the last one")] = None
    described: Annotated[Mapping[str, Any] | None, Meta(description="the model, as its process said")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PhasePart:
    """The largest moment of a phase."""

    phase: str
    peak_bytes: Size
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What the store keeps of a run beside its moments; ``ended`` comes last."""

    target: str = ""
    command: tuple[str, ...] = ()
    policy: PolicyPart = PolicyPart()
    interval_s: float = 1.0
    rlmem: str = ""
    started: str = ""
    described: Mapping[str, Any] | None = None
    members: tuple[MemberPart, ...] = ()
    ended: EndPart | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """What the agent said of the model that was trained; empty where it did not."""
        return (self.ended.described if self.ended else None) or self.described or {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDocument(Document):
    """A run from its start to its end: who held its peak, how it grew, how it ended. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.recorded/2"
    TITLE: ClassVar[str] = "A run recorded by rlmem run"
    OLDER: ClassVar[Any] = {
        "rlmem.recorded/1": lambda data: {**data, "capacity": with_peaks(data.get("capacity"))},
    }

    run: Annotated[str | None, Meta(description="its id in the store; null where it is not kept")]
    target: str
    command: tuple[str, ...]
    started: str
    status: str
    machine: Mapping[str, Any]
    policy: PolicyPart
    ended: Annotated[EndPart | None, Meta(description="null: under way, or the recording was cut short")]
    peak: RecordedPeakPart
    plan: Annotated[
        PlanDocument | None,
        Meta(description="what rlmem predicts for the model that was trained; null: it is not known"),
    ] = None
    no_plan: Annotated[
        str,
        Meta(description="why nothing is predicted; empty: there is a plan, or the program said nothing of a model"),
    ] = ""
    versions: Annotated[
        Mapping[str, str], Meta(description="of the framework and what it stands on, as the program had them")
    ] = field(default_factory=dict)
    phases: tuple[PhasePart, ...]
    judgement: JudgementPart
    moments: Annotated[tuple[MomentPart, ...], Meta(description="without what is not known of each")]
    capacity: Annotated[
        CapacityCurvePart | None, Meta(description="in reports: peaks over the main knob; null: not known")
    ] = None
    remedies: Annotated[tuple[RemedyPart, ...], Meta(description="in reports: the largest saving first")] = ()

    @property
    def postmortem(self) -> PostMortemPart | None:
        """Why it died of memory; ``None`` where it did not, or is not known to have."""
        return self.ended.postmortem if self.ended else None

    @property
    def largest(self) -> MomentPart | None:
        """The largest moment that was looked at."""
        return max(self.moments, key=lambda moment: moment.tree_bytes, default=None)

    def ledger(self) -> Ledger:
        """Return what its owners held at the peak, in the components of a plan; the rest has no name.

        Owners that were asked at another moment can hold more than the peak; then nothing of the peak has a name.
        """
        phase = self.peak.phase if self.peak.phase in PHASES else "collect"
        owners = [owner for owner in self.peak.owners if owner.device == "ram"]
        rest = self.peak.nbytes - sum(owner.resident_bytes for owner in owners)
        if rest < 0:
            owners, rest = [], self.peak.nbytes
        entries = [_measured(*_component(owner), phase, owner.resident_bytes, owner.path) for owner in owners]
        if rest:
            entries.append(_measured(UNKNOWN, "main", phase, rest, "the peak of the process tree"))
        return Ledger(merge(entries))

    def as_written(self, plain: Plain) -> Plain:
        """Return the data with moments as recordings have them."""
        return {**plain, "moments": [sparse(moment) for moment in plain["moments"]]}


def _component(owner: HoldingPart) -> tuple[str, str]:
    """Return the component and the process of an owner; owners in children begin with who these are."""
    other = OF_CHILD.match(owner.path)
    process = process_of(other[1] if other else "main")
    if process != "main":
        return process, process
    transitions = owner.has_transitions
    return component_of(owner.path, owner.kind, owner.type, has_transitions=transitions), process


def _measured(component: str, process: str, phase: str, nbytes: int, what: str) -> Entry:
    amount = Quantity.of(nbytes, what, "resident at the peak")
    return Entry(component=component, device="ram", process=process, phase=phase, amount=amount, basis="measured")


def ending(document: RecordedDocument) -> str:
    """Return how a run ended, in one line."""
    ended = document.ended
    if ended is None:
        return "still running, or rlmem itself was ended: the recording has no end"
    after = f"after {format_duration(ended.wall_s)}"
    code, signals = ended.returncode, ended.signals
    if ended.status == "ok":
        return f"exit code 0 {after}, but a part of it failed" if ended.postmortem else f"ended well {after}"
    if ended.status == "stopped":
        return f"stopped by rlmem {after}, exit code {ended.exit_code}"
    if ended.status == "interrupted":
        return f"interrupted {after}" + (f" ({', '.join(signals)})" if signals else "")
    if code is not None and code < 0:
        return f"killed by {signal_name(-code)} {after}"
    return f"exit code {code} {after}"


def peak_sentence(document: RecordedDocument) -> str:
    """Return the peak in one line: when, in which phase, held by whom."""
    peak = document.peak
    if not peak.nbytes:
        return "peak not known: it ended before it could be looked at"
    parts = [f"peak {format_size(peak.nbytes)}"]
    if peak.limit_bytes:
        share = peak.nbytes / peak.limit_bytes
        parts[0] += f", {share:.0%} of the {format_size(peak.limit_bytes)} of {peak.limit_name or 'the limit'}"
    at = f"at {format_duration(peak.at_s)}"
    phase = f"in {peak.phase}" if peak.phase else ""
    step = f"step {format_count(peak.step)}" if peak.step is not None else ""
    parts.append(" ".join(part for part in (at, phase, f"({step})" if step else "") if part))
    if not peak.seen:
        parts.append("between two looks, by the kernel's own mark")
    least = SMALL_SHARE * peak.nbytes
    owners = [owner for owner in peak.owners if owner.device == "ram" and owner.resident_bytes >= least]
    owners.sort(key=lambda owner: -owner.resident_bytes)
    if owners:
        parts.append("held by " + ", ".join(_sized(owner) for owner in owners[:3]))
    return "; ".join(parts)


def _sized(owner: HoldingPart) -> str:
    about = "about " if owner.estimated else ""
    return f"{owner.path} {about}{format_size(owner.resident_bytes)}"
