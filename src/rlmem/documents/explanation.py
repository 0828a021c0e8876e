"""What holds the memory of a running process and its children, as a document: ``rlmem.explain/2``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta

from rlmem.core.findings import Advice, Finding
from rlmem.core.holdings import (
    PAGE_METHODS,
    Explanation,
    GpuShare,
    Portion,
    Progress,
    ThreadStack,
    TreeExplanation,
)
from rlmem.core.ledger import Ledger
from rlmem.documents.contract import Document, Plain
from rlmem.documents.parts import (
    AdvicePart,
    FindingPart,
    GpuSharePart,
    HoldingPart,
    PortionPart,
    ProgressPart,
    Size,
    Way,
    advice_part,
    core_object_of,
    finding_part,
    gpu_share_part,
    holding_part,
    part_of,
    portion_part,
    progress_part,
)

if TYPE_CHECKING:
    PageMethod: TypeAlias = str
else:
    PageMethod = Literal[PAGE_METHODS]


def _as_version_2(data: Plain) -> Plain:
    """Return a document of version 1 as one of version 2, in which findings are as in all other documents."""

    def updated(finding: Mapping[str, Any]) -> Plain:
        place = finding.get("place")
        return {**finding, "changes": dict(finding.get("changes", ())), "line": place["line"] if place else None}

    lists = {key: [updated(finding) for finding in data.get(key, ())] for key in ("findings", "advice")}
    return {**data, **lists}


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPart:
    """One thread and its stack; ``null`` where a stack cannot be told."""

    tid: int
    name: str
    reserved_bytes: Annotated[Size | None, Meta(description="addresses")] = None
    resident_bytes: Annotated[Size | None, Meta(description="touched pages")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPart:
    """One process: named + portions + unexplained = resident, to the page."""

    pid: int
    start: Annotated[int, Meta(description="clock ticks after boot: with the pid, who it is")] = 0
    command: str
    role: str
    state: str
    way: Annotated[Way, Meta(description="how the names of owners were had; 'pages': only classes could be told")]
    pages_from: Annotated[PageMethod, Meta(description="how resident pages were read")]
    rss_bytes: Size
    pss_bytes: Size | None
    uss_bytes: Size | None
    swap_bytes: Size | None
    shared_anonymous_bytes: Annotated[Size | None, Meta(description="pages that a fork still shares")]
    holdings: tuple[HoldingPart, ...]
    portions: Annotated[tuple[PortionPart, ...], Meta(description="memory without an owner, by class")]
    unexplained_bytes: int
    threads: tuple[ThreadPart, ...]
    gpus: tuple[GpuSharePart, ...]
    progress: ProgressPart | None = None
    phase: str | None = None
    trimmed_bytes: Annotated[Size | None, Meta(description="what malloc_trim gave back; null: not called")]
    free_heap_bytes: Annotated[Size | None, Meta(description="free inside the C library's heap, resident or not")]
    open_figures: Annotated[int | None, Meta(description="of pyplot")]
    models_alive: Annotated[int | None, Meta(description="SB3 models, those that only a cycle keeps included")]
    seconds: float = 0.0
    pauses_s: Annotated[tuple[float, ...], Meta(description="how long the program stood still, each time")] = ()
    notes: tuple[str, ...]
    named_bytes: Size
    growth_bytes: Annotated[int, Meta(description="what the bounded owners will still take until the run ends")]
    full_growth_bytes: Annotated[int, Meta(description="the same in a run that is long enough to fill them")]
    paused_s: float = 0.0
    longest_pause_s: float = 0.0

    @property
    def portion_bytes(self) -> int:
        """Resident memory without an owner whose class is known."""
        return sum(portion.resident_bytes for portion in self.portions)

    def explanation(self) -> Explanation:
        """Return the ``Explanation`` of this part."""
        return core_object_of(
            Explanation,
            self,
            holdings=tuple(holding.holding() for holding in self.holdings),
            portions=tuple(core_object_of(Portion, portion) for portion in self.portions),
            threads=tuple(core_object_of(ThreadStack, thread) for thread in self.threads),
            gpus=tuple(core_object_of(GpuShare, share) for share in self.gpus),
            progress=core_object_of(Progress, self.progress) if self.progress else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationDocument(Document):
    """What holds the memory of a process, page by page: by object, by class, and what is left. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.explain/2"
    TITLE: ClassVar[str] = "rlmem explain"
    OLDER: ClassVar = {"rlmem.explain/1": _as_version_2}

    limit_bytes: Annotated[Size | None, Meta(description="what the process may reach: the limit that leaves the least")]
    limit_source: str
    pss_bytes: Annotated[Size | None, Meta(description="of all processes: a page that several share counts once")]
    uss_bytes: Size | None
    shared_bytes: Size | None
    processes: Annotated[tuple[ProcessPart, ...], Meta(min_length=1, description="the one asked about first")]
    findings: Annotated[tuple[FindingPart, ...], Meta(description="what the rules see in the processes")]
    advice: Annotated[tuple[AdvicePart, ...], Meta(description="what they say of the run it was started as")]
    notes: tuple[str, ...]

    @property
    def top(self) -> ProcessPart:
        """The process that was asked about."""
        return self.processes[0]

    def ledger(self) -> Ledger:
        """Return what the processes hold in the components of a plan; see ``TreeExplanation.ledger``."""
        return TreeExplanation(processes=tuple(process.explanation() for process in self.processes)).ledger()


def explanation_document(
    tree: TreeExplanation,
    *,
    findings: Sequence[Finding] = (),
    advice: Sequence[Advice] = (),
    limit_bytes: int | None = None,
    limit_source: str = "",
) -> ExplanationDocument:
    """Return an explanation as the document that is printed, stored and served.

    Args:
        tree: the processes.
        findings: what the rules see in the processes themselves.
        advice: what they say of the run that the first process was started as.
        limit_bytes: what the first process may reach.
        limit_source: where that limit comes from.
    """
    return ExplanationDocument(
        limit_bytes=limit_bytes,
        limit_source=limit_source,
        pss_bytes=tree.pss_bytes,
        uss_bytes=tree.uss_bytes,
        shared_bytes=tree.shared_bytes,
        processes=tuple(_process_part(process) for process in tree.processes),
        findings=tuple(finding_part(finding) for finding in findings),
        advice=tuple(advice_part(item) for item in advice),
        notes=tree.notes,
    )


def _process_part(process: Explanation) -> ProcessPart:
    return part_of(
        ProcessPart,
        process,
        holdings=tuple(holding_part(holding) for holding in process.holdings),
        portions=tuple(portion_part(portion) for portion in process.portions),
        threads=tuple(part_of(ThreadPart, thread) for thread in process.threads),
        gpus=tuple(gpu_share_part(share) for share in process.gpus),
        progress=progress_part(process.progress),
        longest_pause_s=max(process.pauses_s, default=0.0),
    )
