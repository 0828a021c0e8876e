"""Where a run fits on nodes, as a document (``rlmem.placement/1``): bundles, nodes, how many at once, what stops more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size

Count = Annotated[int, Meta(ge=0)]
#: Cores and shares: whole ones are written as such.
Number: TypeAlias = int | float
#: What limits: ``ram``, ``vram``, ``store``, ``memory``, ``cpus``, or ``resource NAME`` of a custom one.
Resource = Annotated[
    str, Meta(description="ram, vram, store, memory, cpus; memory is what Ray admits; 'resource NAME' is a custom one")
]
if TYPE_CHECKING:  # to the type checker it is text; a reader of JSON takes only these words
    Strategy: TypeAlias = str
else:
    Strategy = Literal["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPart:
    """The run that is placed."""

    name: str
    about: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermsPart:
    """What a node gives: the margin on upper bounds, and the shares of RAM and of an object store that may be used."""

    margin: float
    kill_share: float
    spill_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesPart:
    """A group of equal nodes."""

    name: str
    count: Count
    ram_bytes: Size
    usable_bytes: Size
    cpus: Number | None
    gpus: Count
    gpu: str | None
    vram_bytes: Size | None
    unified: bool
    memory_bytes: Size | None
    store_bytes: Size | None
    resources: Annotated[Mapping[str, Number] | None, Meta(description="custom ones of Ray's, where known")] = None
    default_store_bytes: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePart:
    """Processes that are placed together, and what to ask for; lists have one entry for each group of nodes."""

    role: str
    count: Count
    expected_bytes: Size | None
    high_bytes: Size
    vram_bytes: Size
    cache_bytes: Size
    memory_bytes: tuple[Size, ...]
    cpus: Number
    gpus: Annotated[tuple[Number | None, ...], Meta(description="null where no GPU of the group is large enough")]
    whole_gpu: bool
    asked_gpu: Annotated[Number, Meta(description="what is configured")]
    resources: Annotated[Mapping[str, Number], Meta(description="custom ones of Ray's")] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsePart:
    """Nodes that hold the same."""

    group: Count
    nodes: Count
    bundles: Mapping[str, Count]
    trials: Count
    memory_bytes: Size
    node_bytes: Size
    object_store_bytes: Annotated[Size | None, Meta(description="--object-store-memory of 'ray start' on these nodes")]
    ram_bytes: Size
    usable_bytes: Size
    admit_bytes: Annotated[Size, Meta(description="--memory of 'ray start' on these nodes")]
    cpus: Number
    gpus: tuple[Number, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomPart:
    """Bundles of a role that an empty node holds, and by each resource alone."""

    group: Count
    role: str
    count: Count
    limit: Resource | None
    by: Mapping[str, Count]


@dataclass(frozen=True, slots=True, kw_only=True)
class MostPart:
    """The most of a role that one trial alone could have."""

    role: str
    count: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardsPart:
    """A count that was divided over learners."""

    path: str
    whole: Count
    count: Count
    each: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class LackPart:
    """What finds no place, and what it would need."""

    role: str
    count: Count
    never: Annotated[bool, Meta(description="not even on an empty node")]
    group: Annotated[Count, Meta(description="the nodes that come nearest")]
    resource: Resource
    needs: Number
    has: Number
    machine: Annotated[str | None, Meta(description="of the catalogue, that would hold it")]
    nodes: Annotated[int | None, Meta(description="nodes of the group that would hold a trial")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementDocument(Document):
    """Where a run fits on nodes and how many of it at once. Sizes are integers in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.placement/1"
    TITLE: ClassVar[str] = "rlmem placement"

    target: PlacedPart
    terms: TermsPart
    nodes: Annotated[tuple[NodesPart, ...], Meta(description="'group' elsewhere is a position in this list")]
    bundles: Annotated[tuple[BundlePart, ...], Meta(description="the first one is the driver")]
    strategy: Strategy
    node_bytes: Annotated[Size, Meta(description="fixed cost of each node in use")]
    flight_bytes: Annotated[Size, Meta(description="the most in flight in object stores")]
    on_ray: bool
    trials: Count
    at_least: Annotated[bool, Meta(description="there may be room for more trials")]
    limit: Annotated[Resource | None, Meta(description="what stops one more trial")]
    uses: tuple[UsePart, ...]
    idle_nodes: Count
    holds: tuple[RoomPart, ...]
    most: MostPart | None
    shards: ShardsPart | None
    lacks: tuple[LackPart, ...]
