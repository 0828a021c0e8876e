"""Who holds the memory of a Ray cluster, by node, process and owner, as a document: ``rlmem.cluster/1``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import GpuSharePart, HoldingPart, PortionPart, Size, Way


@dataclass(frozen=True, slots=True, kw_only=True)
class RolePart:
    """All processes of one role over the cluster; the object stores are a role too."""

    role: str
    processes: int
    heap_bytes: Annotated[Size | None, Meta(description="PSS without the object store")]
    largest_bytes: Annotated[Size | None, Meta(description="of the largest process")]
    uss_bytes: Size | None
    vram_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterProcessPart:
    """One process of a node. Of one whose pages may not be read only ``rss_bytes`` is known."""

    pid: int
    start: Annotated[int, Meta(description="clock ticks after boot: with the pid, who it is")] = 0
    parent: Annotated[int | None, Meta(description="the worker or driver that started it; null: Ray did")]
    command: str
    role: str
    actor_class: str | None
    actor_name: str | None
    actor_id: str | None
    label: Annotated[str | None, Meta(description="the actor's own words for itself")]
    trial: str | None
    job: str | None
    rss_bytes: Size
    pss_bytes: Size | None
    uss_bytes: Annotated[Size | None, Meta(description="without the object store's pages")]
    swap_bytes: Size | None
    shmem_bytes: Annotated[Size | None, Meta(description="shared memory, the object store among it")]
    store_bytes: Annotated[Size | None, Meta(description="its part of the object store's pages")]
    gpus: tuple[GpuSharePart, ...]
    way: Annotated[Way, Meta(description="how the names of owners were had; 'pages': only classes could be told")]
    holdings: Annotated[tuple[HoldingPart, ...], Meta(description="large owners")]
    smaller_bytes: Annotated[int, Meta(description="what all other owners hold")]
    portions: Annotated[tuple[PortionPart, ...], Meta(description="memory without an owner, by class")]
    unexplained_bytes: int | None
    paused_s: Annotated[float, Meta(description="how long the program stood still to be looked at")]
    notes: tuple[str, ...]
    heap_bytes: Annotated[Size | None, Meta(description="PSS without the object store")]
    vram_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePart:
    """A node's object store, once, however many processes have it mapped."""

    capacity_bytes: Size | None
    primary_bytes: Annotated[Size | None, Meta(description="objects that must stay until nobody needs them")]
    resident_bytes: Annotated[Size | None, Meta(description="pages of its file that are in memory")]
    spilled_bytes: Annotated[Size | None, Meta(description="on the disk")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRoomPart:
    """A GPU of a node, as its driver reports it."""

    name: str
    total_bytes: Size
    free_bytes: Size | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePart:
    """One node; with a ``problem`` it could not be asked, and nothing else is known of it."""

    node_id: str
    address: str
    host: str
    is_head: bool
    problem: str | None
    processes: Annotated[
        tuple[ClusterProcessPart, ...],
        Meta(description="by role, the largest first, children after what started them"),
    ]
    store: StorePart
    gpus: tuple[GpuRoomPart, ...]
    ram_bytes: Size | None
    available_bytes: Size | None
    limit_bytes: Annotated[Size | None, Meta(description="of a cgroup, where one binds the node's workers")]
    limit_used_bytes: Size | None
    limit_source: str
    schedulable_bytes: Annotated[Size | None, Meta(description="what Ray gives out as memory=")]
    probe_bytes: Annotated[Size | None, Meta(description="of our own probe, not among the processes")]
    seconds: float
    cpu_s: float
    notes: tuple[str, ...]
    pss_bytes: Annotated[Size | None, Meta(description="all processes and the object store")]
    heap_bytes: Annotated[Size | None, Meta(description="all processes without the object store")]
    vram_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDocument(Document):
    """Who holds the memory of a cluster: each shared page counts once, each object store once. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.cluster/1"
    TITLE: ClassVar[str] = "rlmem explain --ray"

    ray: Annotated[str, Meta(description="version of Ray")]
    address: str
    complete: Annotated[bool, Meta(description="every node answered, and Ray said who is who")]
    pss_bytes: Annotated[Size | None, Meta(description="what the nodes that answered hold together")]
    roles: tuple[RolePart, ...]
    nodes: Annotated[tuple[NodePart, ...], Meta(description="the head first")]
    seconds: float
    notes: tuple[str, ...]

    @property
    def processes(self) -> Iterator[ClusterProcessPart]:
        """Of every node that answered."""
        return (process for node in self.nodes for process in node.processes)
