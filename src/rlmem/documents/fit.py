"""The smallest change that makes a run fit, as a document: ``rlmem.fit/1``; and steps and remedies, which reports have too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta

from rlmem.core.plan import Plan
from rlmem.documents.contract import Document
from rlmem.documents.parts import Device, MachinePart, PeakPart, Size, Verdict, peak_part

if TYPE_CHECKING:  # to the type checker they are text; a reader of JSON takes only these words
    StepKind: TypeAlias = str
    Status: TypeAlias = str
    TextKind: TypeAlias = str
else:
    StepKind = Literal["lossless", "speed", "learning"]
    Status = Literal["already", "fits", "expected", "no", "unknown", "grows"]
    TextKind = Literal["diff", "yaml", "python", "nothing"]
#: A machine for the run as it is, and one for the run with every step that leaves learning alone.
MachineFor = Literal["as_it_is", "without_changing_learning"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart:
    """A remedy applied: what it changes, what that saves and what it costs."""

    name: str
    kind: Annotated[
        StepKind,
        Meta(
            description="lossless: the learner sees the same numbers; speed: the same, later; learning: other numbers"
        ),
    ]
    title: str
    changes: Annotated[Mapping[str, Any], Meta(description="fields of the run")]
    old: Annotated[Mapping[str, Any], Meta(description="their values before; null where there were none")]
    saves_bytes: Annotated[Mapping[Device, int], Meta(description="plan(before) - plan(after) as expected")]
    slowdown: Annotated[float | None, Meta(description="how many times as long training takes; null: not known")]
    slowdown_basis: Annotated[str, Meta(description="where that figure comes from")]
    costs: str
    how: Annotated[str, Meta(description="how the change is written in a program")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleRemedyPart(StepPart):
    """One remedy applied to the unchanged run."""

    fits: Annotated[bool, Meta(description="whether it is enough")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyPart(SingleRemedyPart):
    """A remedy by itself, with the peaks it leads to and the change as text."""

    after: Annotated[tuple[str, ...], Meta(description="each device's peak, in a sentence")]
    diff: Annotated[str, Meta(description="of the script, or of the fields of the run")]
    text: Annotated[str | None, Meta(description="the change as text that is no diff")] = None
    by_hand: Annotated[tuple[str, ...], Meta(description="what is left to do, a sentence a step")] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FitTargetPart:
    """The run that is to fit."""

    name: str
    about: str | None
    method: Annotated[
        str, Meta(description="'closed form': arithmetic over a description; 'dry run': read from the real thing")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPart:
    """A plan in short: its verdict, and the peak of each device."""

    verdict: Verdict
    summary: tuple[str, ...]
    peaks: tuple[PeakPart, ...]


def judged_part(plan: Plan) -> JudgedPart:
    """Return a plan in short."""
    return JudgedPart(
        verdict=plan.verdict,
        summary=(*plan.sentences, *plan.warnings),
        peaks=tuple(peak_part(top) for top in plan.tops),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueMachinePart:
    """A machine of the catalogue."""

    name: str
    about: str
    ram_bytes: Size | None
    vram_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePart:
    """The steps as text: a diff of the script, fields of a run file, arguments of a model."""

    kind: TextKind
    text: str | None
    by_hand: Annotated[tuple[str, ...], Meta(description="what no edit does, a sentence a step")]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFilePart:
    """A file that was written, and the old one beside it."""

    path: str
    backup: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedPart(WrittenFilePart):
    """The files that were written; the first of them is also named by itself."""

    files: tuple[WrittenFilePart, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPart:
    """One measurement in a fresh process."""

    status: str
    peak_bytes: Size | None
    wall_s: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPart:
    """The run measured before and after its steps; null where it could not be."""

    cap_bytes: Size | None
    before: MeasuredPart | None
    after: MeasuredPart | None
    predicted_saving_bytes: int | None
    real_saving_bytes: Annotated[int | None, Meta(description="null unless both ran to their end")]
    took_effect: Annotated[bool, Meta(description="whether the run with its steps ran under the cap")]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDocument(Document):
    """The steps that make a run fit or come closest, every remedy by itself, and the change as text. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.fit/1"
    TITLE: ClassVar[str] = "What rlmem fit found"

    target: FitTargetPart
    machine: MachinePart
    status: Annotated[
        Status,
        Meta(
            description="already: nothing to do; fits: with its upper bound; expected: only as expected; no; unknown: a limit with "
            "no figure to hold against it; grows: a leak, which no step makes fit"
        ),
    ]
    before: JudgedPart
    after: Annotated[JudgedPart, Meta(description="with all steps")]
    steps: tuple[StepPart, ...]
    changes: Annotated[Mapping[str, Any], Meta(description="of all steps, as fields of the run")]
    slowdown: Annotated[float | None, Meta(description="all steps together; null when one of them is unknown")]
    left_over: Annotated[Mapping[Device, Size], Meta(description="bytes still over the limit at the upper bound")]
    machines: Annotated[
        Mapping[MachineFor, CatalogueMachinePart | None],
        Meta(description="the smallest of the catalogue that would do; null: none is large enough"),
    ]
    alone: tuple[SingleRemedyPart, ...]
    write: WritePart
    applied: Annotated[AppliedPart | None, Meta(description="with --apply")] = None
    verified: Annotated[VerifiedPart | None, Meta(description="with --verify")] = None
    notes: Annotated[tuple[str, ...], Meta(description="how the figures came about")] = ()
