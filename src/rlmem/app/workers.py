"""How many workers fit: the nodes there are, and a run placed on them."""

from __future__ import annotations

from dataclasses import dataclass

from rlmem.app.place import has_gpu, place, placement_document
from rlmem.app.subjects import open_subject
from rlmem.budget import make_budget
from rlmem.cluster.nodes import NodeGroup, one_node, parse_nodes
from rlmem.core.plan import Budget
from rlmem.core.progress import ShowProgress
from rlmem.core.target import Target
from rlmem.documents.placement import PlacementDocument
from rlmem.errors import AnalysisError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRequest:
    """Which nodes are meant: those named, those of a running cluster, or one machine."""

    nodes: str | None = None
    live: bool = False
    address: str | None = None
    ram: str | None = None
    vram: str | None = None
    machine: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersRequest:
    """Which run is placed, on which nodes and on which terms."""

    target: Target
    groups: tuple[NodeGroup, ...]
    margin: float
    on_ray: bool
    #: A count to divide over learners, such as ``agents``.
    shard: str | None = None


def find_nodes(request: NodesRequest, progress: ShowProgress) -> tuple[NodeGroup, ...]:
    """Return the groups of nodes that are meant.

    Args:
        request: which nodes.
        progress: shows what is being done.

    Raises:
        UsageError: the request contradicts itself, or names nodes that nobody knows.
        AnalysisError: how much RAM this machine has is not known, or there is no cluster.
    """
    sizes = (request.ram, request.vram, request.machine)
    if request.address is not None and not request.live:
        raise UsageError("--address is for --ray, which reads the nodes of a running cluster")
    if request.live and (request.nodes is not None or any(sizes)):
        raise UsageError("--ray and --nodes/--ram/--vram/--machine contradict each other; use one")
    if request.live:
        from rlmem.ray.connecting import connected, running
        from rlmem.ray.placement import nodes_of

        with progress("asking the cluster's nodes"), connected(running(request.address)) as ray:
            return nodes_of(ray)
    return named_nodes(request.nodes, sizes) or _one_machine(request)


def named_nodes(nodes: str | None, sizes: tuple[str | None, ...]) -> tuple[NodeGroup, ...]:
    """Return the groups of nodes that ``--nodes`` names; raise ``UsageError`` where other options contradict it."""
    if nodes is None:
        return ()
    if any(sizes):
        raise UsageError("--nodes and --ram/--vram/--machine contradict each other; use one")
    return parse_nodes(nodes)


def fit_workers(request: WorkersRequest, progress: ShowProgress) -> PlacementDocument:
    """Return how many of a run fit at once, where they go, and what stops one more.

    Args:
        request: the run, the nodes and the terms.
        progress: shows what is being done.

    Raises:
        UsageError: the run cannot be read, or not be divided.
        AnalysisError: a dry run stopped before anything was known.
    """
    anywhere = Budget(name="nodes")  # the nodes are the limit
    subject = open_subject(request.target, anywhere, progress=progress, gpu=has_gpu(request.groups))
    placement = place(subject, request.groups, margin=request.margin, on_ray=request.on_ray, shard=request.shard)
    return placement_document(placement)


def _one_machine(request: NodesRequest) -> tuple[NodeGroup, ...]:
    """Return one machine: stated, from the catalogue, or this one. Of one stated by its sizes nobody knows the cores."""
    ram, vram, machine = request.ram, request.vram, request.machine
    budget = make_budget(ram=ram, vram=vram, machine=machine)
    if budget.ram_bytes is None:
        raise AnalysisError(f"{budget.name}: how much RAM it has is not known; give --ram or --nodes")
    cpus = budget.cores if ram is None or machine is not None else None
    vram_bytes = None if ram is not None and vram is None and machine is None else budget.vram_bytes
    return one_node(budget.name, budget.ram_bytes, vram_bytes=vram_bytes, cpus=cpus, unified=budget.unified)
