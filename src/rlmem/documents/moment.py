"""One moment of a watched tree of processes as a document: a line of ``rlmem watch --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta

from rlmem.core.moments import STATES, Growth, Judgement, Moment
from rlmem.documents.contract import Document, Plain, read_part, to_plain
from rlmem.documents.parts import (
    HoldingPart,
    PortionPart,
    ProgressPart,
    Size,
    holding_part,
    part_of,
    portion_part,
    progress_part,
)

if TYPE_CHECKING:
    State: TypeAlias = str
else:
    State = Literal[STATES]

#: Owners whose growth a line tells of, the fastest first.
MOST_OWNERS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentPart:
    """One look at a tree of processes."""

    at_s: Annotated[float, Meta(description="seconds since the watch or the run began")]
    tree_bytes: Annotated[Size, Meta(description="what the processes hold together: PSS, or the best estimate of it")]
    rss_bytes: Size
    uss_bytes: Size | None = None
    vram_bytes: Size | None = None
    processes: int = 1
    threads: int = 0
    cpu_s: float = 0.0
    idle_s: Annotated[float, Meta(description="for how long no process has taken CPU time of its own")] = 0.0
    limit_bytes: Annotated[
        Size | None, Meta(description="what the tree may reach under the limit that bites first")
    ] = None
    limit_name: str = ""
    vram_limit_bytes: Size | None = None
    cache_bytes: Annotated[Size | None, Meta(description="file cache of a cgroup, not part of tree_bytes")] = None
    pressure: Annotated[float | None, Meta(description="share of the last 10 s in which something waited")] = None
    progress: ProgressPart | None = None
    holdings: Annotated[
        tuple[HoldingPart, ...] | None, Meta(description="owners; null when nobody was asked this time")
    ] = None
    portions: Annotated[
        tuple[PortionPart, ...] | None,
        Meta(description="what of the largest process has no owner, by class; asked as seldom"),
    ] = None
    phase: Annotated[str, Meta(description="collect, update, evaluate …, where the framework tells")] = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPart:
    """One process of a tree; PSS and USS as last read, ``null`` where unknown."""

    pid: int
    role: str
    command: str
    rss_bytes: Size
    pss_bytes: Size | None
    uss_bytes: Size | None
    threads: int
    state: Annotated[str, Meta(description="a letter, as in /proc; empty in recordings")] = ""
    vram_bytes: Size | None = None
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPart:
    """How fast one thing grows, and whether that is more than noise."""

    name: str
    bytes_per_s: float
    low: float
    high: float
    significant: bool
    items_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastPart:
    """The size it will reach, or when the limit is reached: seconds from the last moment."""

    final_bytes: int | None = None
    final_low_bytes: int | None = None
    final_high_bytes: int | None = None
    fits: Annotated[bool | None, Meta(description="null: no limit is known, or it lies in the range")] = None
    full_in_s: float | None = None
    full_low_s: float | None = None
    full_high_s: float | None = None
    full_at_step: int | None = None
    oom_in_s: float | None = None
    oom_low_s: float | None = None
    oom_high_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgementPart:
    """A verdict on a series of moments, with its reasons in words."""

    state: State
    reasons: tuple[str, ...] = ()
    culprit: Annotated[str | None, Meta(description="the owner that is to blame")] = None
    total: TrendPart | None = None
    residual: Annotated[TrendPart | None, Meta(description="what is not in a store that fills")] = None
    owners: tuple[TrendPart, ...] = ()
    forecast: ForecastPart = ForecastPart()


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentDocument(Document):
    """What a watched tree of processes holds at one moment, and what that comes to. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.moment/1"
    TITLE: ClassVar[str] = "One moment of a watched tree of processes"

    time: Annotated[str, Meta(description="ISO 8601, with the offset of the local zone")]
    target: Annotated[str, Meta(description="the process or cgroup that is watched")]
    command: str
    moment: MomentPart
    members: tuple[MemberPart, ...]
    judgement: JudgementPart


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledMomentDocument(MomentDocument):
    """The latest moment of a process that a server watches, and what watching it has cost. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.polled-moment/1"
    TITLE: ClassVar[str] = "The latest moment of a process that rlmem serve watches"

    number: Annotated[int, Meta(description="how many moments were taken: the same number is the same moment")]
    end: Annotated[str | None, Meta(description="how the process ended; null while it runs")]
    sampler_cpu_s: Annotated[float, Meta(description="CPU time that watching it has taken")]
    sampler_wall_s: Annotated[float, Meta(description="seconds since the watch began")]


def moment_part(moment: Moment) -> MomentPart:
    """Return a moment as documents have it."""
    holdings, portions = moment.holdings, moment.portions
    return part_of(
        MomentPart,
        moment,
        progress=progress_part(moment.progress),
        holdings=None if holdings is None else tuple(holding_part(holding) for holding in holdings),
        portions=None if portions is None else tuple(portion_part(portion) for portion in portions),
    )


def judgement_part(judgement: Judgement, *, most_owners: int | None = None) -> JudgementPart:
    """Return a verdict as documents have it, with the growth of so many owners."""
    return part_of(
        JudgementPart,
        judgement,
        total=_trend_part(judgement.total),
        residual=_trend_part(judgement.residual),
        owners=tuple(part_of(TrendPart, growth) for growth in judgement.owners[:most_owners]),
        forecast=part_of(ForecastPart, judgement.forecast),
    )


def _trend_part(growth: Growth | None) -> TrendPart | None:
    return part_of(TrendPart, growth) if growth else None


# -- recordings: thousands of moments, which are written without what is not known -----------------------------------------


def moment_data(moment: Moment) -> Plain:
    """Return a moment as recordings keep it."""
    return sparse(to_plain(moment))


def read_moment(data: Mapping[str, Any]) -> Moment:
    """Read a moment of a recording; fields of a later version are left out."""
    return read_part(Moment, data)


def sparse(moment: Plain) -> Plain:
    """Return the data of a moment without what has its default, and times to the millisecond."""
    data = {name: value for name, value in moment.items() if value != _MOMENT[name] or name == "cpu_s"}
    data |= {name: round(data[name], 3) for name in ("at_s", "cpu_s", "idle_s") if name in data}
    if data.get("holdings") is not None:
        data["holdings"] = [_sparse_holding(holding) for holding in data["holdings"]]
    return data


def _sparse_holding(holding: Plain) -> Plain:
    return {name: value for name, value in holding.items() if value != _HOLDING[name]}


def _defaults(kind: type[Any]) -> dict[str, Any]:
    """Return the defaults of a part as JSON has them."""
    return {item.name: [] if item.default == () else item.default for item in fields(kind)}


_MOMENT, _HOLDING = _defaults(MomentPart), _defaults(HoldingPart)
