"""Who holds the memory of a Ray cluster: a probe on each node says what its processes hold."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from rlmem.cluster.holdings import ClusterHoldings, NodeHoldings, ProcessHoldings, place
from rlmem.core.holdings import Holding, sum_known
from rlmem.core.roles import STORE
from rlmem.documents.cluster import (
    ClusterDocument,
    ClusterProcessPart,
    GpuRoomPart,
    NodePart,
    RolePart,
    StorePart,
)
from rlmem.documents.parts import gpu_share_part, holding_part, part_of, portion_part

#: Begins to say how far it is: of how many nodes one more has answered, and what that came to.
Progress: TypeAlias = Callable[[int, str], AbstractContextManager[Callable[[str], None]]]


def _say_nothing(total: int, what: str) -> AbstractContextManager[Callable[[str], None]]:
    return nullcontext(lambda text: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainClusterRequest:
    """A cluster to explain, and how far to go.

    Attributes:
        address: where it is, as ``ray.init`` takes it; by default ``RAY_ADDRESS``, else the cluster of this machine.
        names: ask programs for the names of their objects.
        timeout_s: how long to wait for an answer of a process.
        deadline_s: how long to wait for a node.
    """

    address: str | None = None
    names: bool = True
    timeout_s: float = 2.0
    deadline_s: float = 30.0


def explain_cluster(request: ExplainClusterRequest, progress: Progress = _say_nothing) -> ClusterDocument:
    """Explain what holds the memory of a cluster.

    Args:
        request: the cluster, and how far to go.
        progress: is told of every node that has answered.

    Returns:
        Its nodes with their processes and owners; a node that did not answer says why.

    Raises:
        AnalysisError: there is no such cluster, or no Ray to reach it with.
    """
    from rlmem.ray.connecting import connected, running
    from rlmem.ray.probing import probe_once

    # Ray would start a cluster of its own where it finds none, and there would be nothing to explain.
    with connected(running(request.address)) as ray:
        count = sum(node["Alive"] for node in ray.nodes())
        with progress(count, "asking nodes") as tell:
            cluster = probe_once(
                ray,
                names=request.names,
                timeout_s=request.timeout_s,
                deadline_s=request.deadline_s,
                own_driver=True,
                tell=tell,
            )
    return cluster_document(cluster)


def cluster_document(cluster: ClusterHoldings) -> ClusterDocument:
    """Return what probes have said as the document that is printed and stored."""
    return ClusterDocument(
        ray=cluster.ray,
        address=cluster.address,
        complete=cluster.is_complete,
        pss_bytes=cluster.pss_bytes,
        roles=_role_parts(cluster),
        nodes=tuple(_node_part(node) for node in cluster.nodes),
        seconds=cluster.seconds,
        notes=cluster.notes,
    )


def _role_parts(cluster: ClusterHoldings) -> tuple[RolePart, ...]:
    heaps = cluster.by_role()
    by_role: dict[str, list[ProcessHoldings]] = {}
    for process in cluster.processes:
        by_role.setdefault(process.role, []).append(process)

    def role_part(role: str) -> RolePart:
        processes = by_role.get(role, [])
        known = (process.heap_bytes for process in processes if process.heap_bytes is not None)
        return RolePart(
            role=role,
            processes=len(processes),
            heap_bytes=heaps.get(role),
            largest_bytes=max(known, default=None),
            uss_bytes=sum_known(process.uss_bytes for process in processes),
            vram_bytes=sum_known(process.vram_bytes for process in processes),
        )

    return tuple(role_part(role) for role in sorted({*heaps, *by_role}, key=place))


def _node_part(node: NodeHoldings) -> NodePart:
    return part_of(
        NodePart,
        node,
        processes=tuple(_process_part(process) for process in sorted(node.processes, key=_process_order)),
        store=part_of(StorePart, node.store),
        gpus=tuple(part_of(GpuRoomPart, gpu) for gpu in node.gpus),
    )


def _process_order(process: ProcessHoldings) -> tuple[Any, ...]:
    """By role, then the largest first, children after the process that started them."""
    size = process.rss_bytes if process.heap_bytes is None else process.heap_bytes
    return (*place(process.role), process.parent is not None, -size, process.pid)


def _process_part(process: ProcessHoldings) -> ClusterProcessPart:
    return part_of(
        ClusterProcessPart,
        process,
        holdings=tuple(holding_part(holding, **_growth(holding)) for holding in process.holdings),
        portions=tuple(portion_part(portion) for portion in process.portions),
        gpus=tuple(gpu_share_part(share) for share in process.gpus),
    )


def _growth(holding: Holding) -> dict[str, int]:
    """Pages of the object store that a process has not touched are there all the same."""
    return {"growth_bytes": 0, "full_growth_bytes": 0} if holding.file == STORE else {}
