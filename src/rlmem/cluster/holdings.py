"""Who holds the memory of a cluster: node, process, owner. Plain data goes in and out; nothing here asks anybody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rlmem.core.holdings import GpuShare, Holding, Portion, sum_known
from rlmem.core.roles import ORDER, STORE, TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessHoldings:
    """One process of a node. Its share of the object store is told apart: ``heap_bytes`` is without it.

    A process whose pages may not be read has ``rss_bytes`` only. ``holdings`` are its large owners, ``smaller_bytes`` all its
    others; they are known where it has an agent (``way``). A child of an actor has the actor's role and class.
    """

    pid: int
    start: int = 0
    parent: int | None = None  # the worker or driver that started it; None for one that Ray knows itself
    command: str = ""
    role: str = TASK
    actor_class: str | None = None
    actor_name: str | None = None
    actor_id: str | None = None
    label: str | None = None  # the actor's own words for itself
    trial: str | None = None
    job: str | None = None
    rss_bytes: int = 0
    pss_bytes: int | None = None
    uss_bytes: int | None = None  # without the object store's pages
    swap_bytes: int | None = None
    shmem_bytes: int | None = None  # its part of shared memory, the object store among it
    store_bytes: int | None = None  # its part of the object store's pages
    gpus: tuple[GpuShare, ...] = ()
    way: str = "pages"
    holdings: tuple[Holding, ...] = ()
    smaller_bytes: int = 0
    portions: tuple[Portion, ...] = ()
    unexplained_bytes: int | None = None
    paused_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def heap_bytes(self) -> int | None:
        """What it holds beside the object store, its share of shared pages counted."""
        if self.pss_bytes is None:
            return None
        return max(0, self.pss_bytes - (self.store_bytes or 0))

    @property
    def vram_bytes(self) -> int | None:
        """On all GPUs together; None where no driver says."""
        return sum_known(share.used_bytes for share in self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHoldings:
    """A node's object store, once, however many processes have it mapped.

    ``primary_bytes`` are objects that must stay until nobody needs them, as Ray's scheduler counts them; copies fetched from
    other nodes are not in it. ``resident_bytes`` are pages of its file that are in memory, whatever lies in them: they stay
    when objects go. ``spilled_bytes`` lie on the disk.
    """

    capacity_bytes: int | None = None
    primary_bytes: int | None = None
    resident_bytes: int | None = None
    spilled_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuRoom:
    """A GPU of a node, as its driver reports it."""

    name: str
    total_bytes: int
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHoldings:
    """One node; with a ``problem`` it could not be asked, and nothing else is known of it."""

    node_id: str
    address: str = ""
    host: str = ""
    is_head: bool = False
    problem: str | None = None
    processes: tuple[ProcessHoldings, ...] = ()
    store: StoreHoldings = StoreHoldings()
    gpus: tuple[GpuRoom, ...] = ()
    ram_bytes: int | None = None
    available_bytes: int | None = None
    limit_bytes: int | None = None  # a cgroup's, where one binds the node's workers
    limit_used_bytes: int | None = None
    limit_source: str = ""
    schedulable_bytes: int | None = None  # what Ray gives out as memory=
    probe_bytes: int | None = None  # of our own probe, not among the processes
    seconds: float = 0.0
    cpu_s: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def heap_bytes(self) -> int | None:
        """All processes without the object store, each shared page once; None when nothing could be read."""
        return sum_known(process.heap_bytes for process in self.processes)

    @property
    def pss_bytes(self) -> int | None:
        """All processes and the object store."""
        heap = self.heap_bytes
        return None if heap is None else heap + _store(self)

    @property
    def vram_bytes(self) -> int | None:
        """What its processes hold on GPUs; None where no driver says."""
        return sum_known(process.vram_bytes for process in self.processes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHoldings:
    """All nodes, the head first."""

    nodes: tuple[NodeHoldings, ...]
    address: str = ""
    ray: str = ""
    seconds: float = 0.0
    #: Why Ray's own tables could not be read, without which nobody knows who is an actor, and drivers are not seen.
    untold: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What is true of the whole."""
        if self.untold is None:
            return ()
        return (
            f"Ray's tables could not be read ({self.untold}): drivers are not in these sums, and actors, their roles and "
            "trials are not told",
        )

    @property
    def processes(self) -> Iterator[ProcessHoldings]:
        """Of every node that answered."""
        return (each for node in self.nodes for each in node.processes)

    @property
    def pss_bytes(self) -> int | None:
        """What the nodes that answered hold together."""
        return sum_known(node.pss_bytes for node in self.nodes)

    @property
    def is_complete(self) -> bool:
        """Whether every node answered, and Ray said who is who."""
        return self.untold is None and all(node.problem is None for node in self.nodes)

    def by_role(self, *, value: str = "heap_bytes") -> dict[str, int]:
        """Bytes of each role over the cluster, and of the object stores; roles in the order of a report."""
        return by_role(self.nodes, value=value)


def by_role(nodes: Iterable[NodeHoldings], *, value: str = "heap_bytes") -> dict[str, int]:
    """Bytes by role; the object store is a role of its own."""
    found: dict[str, int] = {}
    for node in nodes:
        for each in node.processes:
            nbytes = getattr(each, value)
            if nbytes is not None:
                found[each.role] = found.get(each.role, 0) + nbytes
        if _store(node):
            found[STORE] = found.get(STORE, 0) + _store(node)
    return {role: found[role] for role in sorted(found, key=place)}


def place(role: str) -> tuple[int, str]:
    """Where a role stands in a report."""
    return (ORDER.index(role), "") if role in ORDER else (ORDER.index(TASK), role)


def _store(node: NodeHoldings) -> int:
    """Pages of the store's file; where that cannot be read, what processes have of it."""
    if node.store.resident_bytes is not None:
        return node.store.resident_bytes
    return sum(each.store_bytes or 0 for each in node.processes)


# -- plain data ---------------------------------------------------------------------------------------------------------


def to_data(node: NodeHoldings) -> dict[str, Any]:
    """A node as a probe sends it."""
    return asdict(node)


def from_data(data: Mapping[str, Any]) -> NodeHoldings:
    """A node as a probe sent it; fields that another version has and this one does not are left out."""
    made = _known(NodeHoldings, data)
    made["processes"] = tuple(_process(each) for each in data.get("processes", ()))
    made["store"] = StoreHoldings(**_known(StoreHoldings, data.get("store", {})))
    made["gpus"] = tuple(GpuRoom(**_known(GpuRoom, each)) for each in data.get("gpus", ()))
    made["notes"] = tuple(data.get("notes", ()))
    return NodeHoldings(**made)


def _process(data: Mapping[str, Any]) -> ProcessHoldings:
    made = _known(ProcessHoldings, data)
    made["gpus"] = tuple(GpuShare(**_known(GpuShare, each)) for each in data.get("gpus", ()))
    made["holdings"] = tuple(Holding(**_known(Holding, each)) for each in data.get("holdings", ()))
    made["portions"] = tuple(Portion(**_known(Portion, each)) for each in data.get("portions", ()))
    made["notes"] = tuple(data.get("notes", ()))
    return ProcessHoldings(**made)


def _known(noun: Any, data: Mapping[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(noun)}
    return {key: value for key, value in data.items() if key in names}
