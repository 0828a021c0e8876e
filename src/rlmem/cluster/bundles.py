"""Bundles with the very numbers that Ray is asked for: whether nodes have a place for them all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil

from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import pack
from rlmem.cluster.room import Terms
from rlmem.cluster.workload import PACK, Need, Workload

#: What has a field of its own; anything else in a bundle is a custom resource.
_OWN = frozenset(["CPU", "GPU", "memory"])
#: Every number is as it will be asked for.
_AS_ASKED = Terms(margin=0.0)


def find_place(
    bundles: Sequence[Mapping[str, float]],
    groups: Iterable[NodeGroup],
    workload: Workload,
    terms: Terms,
    *,
    strategy: str = PACK,
) -> bool:
    """Whether empty nodes have room for one trial of these bundles, its process first, with what a node pays for the workload.

    Of a bundle with several GPUs the first one counts.
    """
    asked = Workload(
        name=workload.name,
        needs=tuple(_needs(bundles)),
        node_bytes=terms.with_margin(workload.node_bytes),
        store_bytes=terms.with_margin(workload.store_bytes) if len(bundles) > 1 else 0,
        strategy=strategy,
    )
    return bool(pack(asked, groups, _AS_ASKED, trials=1).trials)


def _needs(bundles: Sequence[Mapping[str, float]]) -> Iterable[Need]:
    """The first bundle by itself, equal ones of the others together."""
    counts: dict[tuple[tuple[str, float], ...], int] = {}
    for bundle in bundles[1:]:
        key = tuple(sorted(bundle.items()))
        counts[key] = counts.get(key, 0) + 1
    yield _need("head", bundles[0], 1)
    for index, (items, count) in enumerate(counts.items()):
        yield _need(f"bundle {index}", dict(items), count)


def _need(role: str, bundle: Mapping[str, float], count: int) -> Need:
    return Need(
        role=role,
        count=count,
        ram_bytes=ceil(bundle.get("memory", 0)),
        least_gpu=min(1.0, bundle.get("GPU", 0.0)),
        cpus=bundle.get("CPU", 0.0),
        resources=tuple((name, amount) for name, amount in bundle.items() if name not in _OWN),
    )
