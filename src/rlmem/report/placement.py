"""Where a run fits on nodes, as a document: bundles, nodes, how many at once, what stops more, and what would help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.app.place import Placement
from rlmem.cluster.answers import RUNNERS, node_holds
from rlmem.cluster.lacking import lacks
from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import Packing, Use
from rlmem.cluster.room import CUSTOM, RESOURCES, SHARES, SPILL_SHARE
from rlmem.cluster.workload import STRATEGIES
from rlmem.errors import UsageError
from rlmem.report.contract import described, problems

PLACEMENT_SCHEMA = "rlmem.placement/1"
#: Ray gives an object store this share of a node's RAM when nobody says otherwise, 200 GB at most (2.60).
DEFAULT_STORE_SHARE, DEFAULT_STORE_MOST = 0.3, 200 * 10**9


def placement_document(placement: Placement) -> dict[str, Any]:
    """A placement as plain data; sizes are integers in bytes."""
    packing, sharding = placement.packing, placement.sharding
    workload, frames = packing.workload, packing.frames
    return {
        "schema": PLACEMENT_SCHEMA,
        "target": {"name": workload.name, "about": placement.about},
        "terms": {
            "margin": packing.terms.margin,
            "kill_share": packing.terms.kill_share,
            "spill_share": SPILL_SHARE,
        },
        "nodes": [_group(group, packing.terms.usable_bytes(group)) for group in packing.groups],
        "bundles": [
            {
                "role": need.role,
                "count": need.count,
                "expected_bytes": need.expected_bytes,
                "high_bytes": need.ram_bytes,
                "vram_bytes": need.vram_bytes,
                "cache_bytes": need.cache_bytes if need.vram_bytes else 0,
                "memory_bytes": [frame.asks[index].memory_bytes for frame in frames],
                "cpus": need.cpus,
                "gpus": [_share(frame.asks[index].share) for frame in frames],
                "whole_gpu": need.whole_gpu,
                "asked_gpu": need.asked_gpu,
                "resources": dict(need.resources),
            }
            for index, need in enumerate(workload.needs)
        ],
        "strategy": workload.strategy,
        "node_bytes": workload.node_bytes,
        "flight_bytes": workload.store_bytes,
        "on_ray": any(frame.stores for frame in frames),
        "trials": packing.trials,
        "at_least": packing.at_least,
        "limit": _limit(packing),
        "uses": [_use(use) for use in packing.uses],
        "idle_nodes": packing.idle_nodes,
        "holds": [
            {"group": row.group, "role": row.role, "count": row.count, "limit": row.limit, "by": dict(row.by)}
            for row in node_holds(packing)
        ],
        "most": None if placement.most_runners is None else {"role": RUNNERS, "count": placement.most_runners},
        "shards": None
        if sharding is None
        else {"path": sharding.path, "whole": sharding.whole, "count": sharding.shards, "each": sharding.each},
        "lacks": [
            {
                "role": lack.role,
                "count": lack.count,
                "never": lack.never,
                "group": lack.group,
                "resource": lack.resource,
                "needs": lack.needs,
                "has": lack.has,
                "machine": lack.machine,
                "nodes": lack.nodes,
            }
            for lack in lacks(packing)
        ],
    }


def _group(group: NodeGroup, usable: int) -> dict[str, Any]:
    return {
        "name": group.name,
        "count": group.count,
        "ram_bytes": group.ram_bytes,
        "usable_bytes": usable,
        "cpus": group.cpus,
        "gpus": group.gpus,
        "gpu": group.gpu,
        "vram_bytes": group.vram_bytes,
        "unified": group.unified,
        "memory_bytes": group.memory_bytes,
        "store_bytes": group.store_bytes,
        "resources": None if group.resources is None else dict(group.resources),
        "default_store_bytes": min(int(group.ram_bytes * DEFAULT_STORE_SHARE), DEFAULT_STORE_MOST),
    }


def _share(share: int) -> float | None:
    """Of one GPU; ``None`` when no GPU of the group is large enough."""
    return None if share > SHARES else share / SHARES


def _use(use: Use) -> dict[str, Any]:
    return {
        "group": use.group,
        "nodes": use.nodes,
        "bundles": dict(use.bundles),
        "trials": use.homes,
        "memory_bytes": use.memory_bytes,
        "node_bytes": use.node_bytes,
        "object_store_bytes": use.store_bytes,
        "ram_bytes": use.ram_bytes,
        "usable_bytes": use.usable_bytes,
        "admit_bytes": use.admit_bytes,
        "cpus": use.cpus,
        "gpus": list(use.gpus),
    }


def _limit(packing: Packing) -> str | None:
    """What stops one more trial: the resource of which the nodes in use have the least left for their kind of bundle."""
    if not packing.uses or not packing.trials:
        return None
    rows = [row for row in node_holds(packing) if row.limit]
    if len(packing.workload.needs) == 1 and packing.workload.needs[0].count == 1:
        row = max(rows, key=lambda row: row.count, default=None)
        return row.limit if row else None
    shares = dict.fromkeys(RESOURCES, 0.0)
    nodes = sum(use.nodes for use in packing.uses)
    for use in packing.uses:
        group = packing.groups[use.group]
        shares["ram"] += use.nodes * use.ram_bytes / use.usable_bytes / nodes
        shares["cpus"] += use.nodes * use.cpus / group.cpus / nodes if group.cpus else 0.0
        shares["vram"] += use.nodes * sum(use.gpus) / len(use.gpus) / nodes if use.gpus else 0.0
        shares["memory"] += use.nodes * use.memory_bytes / group.memory_bytes / nodes if group.memory_bytes else 0.0
    return max(shares, key=lambda resource: shares[resource])


def read_placement_document(data: Any, where: str) -> dict[str, Any]:
    """A saved document, checked."""
    if not isinstance(data, Mapping) or data.get("schema") != PLACEMENT_SCHEMA:
        raise UsageError(f"{where}: not a placement written by rlmem ({PLACEMENT_SCHEMA})")
    problem = next(problems(data, PLACEMENT_JSON_SCHEMA, ""), None)
    if problem:
        raise UsageError(f"{where}: not a complete placement: {problem}")
    return dict(data)


_BYTES = {"type": "integer", "minimum": 0}
_MAYBE_BYTES = {"type": ["integer", "null"], "minimum": 0}
_COUNT = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number", "minimum": 0}
_TEXT = {"type": "string"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_FLAG = {"type": "boolean"}
_RESOURCE = {
    "type": ["string", "null"],
    "description": f"{', '.join(RESOURCES)}; memory is what Ray admits; '{CUSTOM}NAME' is a custom one",
}
_COUNTS = {"type": "object", "additionalProperties": _COUNT}
PLACEMENT_JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": PLACEMENT_SCHEMA,
    "title": "rlmem placement",
    "description": "Where a run fits on nodes and how many of it at once. Sizes are integers in bytes.",
    **described(
        {
            "schema": {"const": PLACEMENT_SCHEMA},
            "target": described({"name": _TEXT, "about": _MAYBE_TEXT}),
            "terms": described({"margin": _NUMBER, "kill_share": _NUMBER, "spill_share": _NUMBER}),
            "nodes": {
                "type": "array",
                "description": "groups of equal nodes; 'group' elsewhere is a position in this list",
                "items": described(
                    {
                        "name": _TEXT,
                        "count": _COUNT,
                        "ram_bytes": _BYTES,
                        "usable_bytes": _BYTES,
                        "cpus": {"type": ["number", "null"]},
                        "gpus": _COUNT,
                        "gpu": _MAYBE_TEXT,
                        "vram_bytes": _MAYBE_BYTES,
                        "unified": _FLAG,
                        "memory_bytes": _MAYBE_BYTES,
                        "store_bytes": _MAYBE_BYTES,
                        "resources": {"type": ["object", "null"], "description": "custom ones of Ray's, where known"},
                        "default_store_bytes": _BYTES,
                    },
                    optional=("resources",),
                ),
            },
            "bundles": {
                "type": "array",
                "description": "the first one drives; memory_bytes and gpus are what to ask for on each group of nodes, asked_gpu what is configured",
                "items": described(
                    {
                        "role": _TEXT,
                        "count": _COUNT,
                        "expected_bytes": _MAYBE_BYTES,
                        "high_bytes": _BYTES,
                        "vram_bytes": _BYTES,
                        "cache_bytes": _BYTES,
                        "memory_bytes": {"type": "array", "items": _BYTES},
                        "cpus": _NUMBER,
                        "gpus": {"type": "array", "items": {"type": ["number", "null"]}},
                        "whole_gpu": _FLAG,
                        "asked_gpu": _NUMBER,
                        "resources": {"type": "object", "additionalProperties": _NUMBER},
                    },
                    optional=("resources",),
                ),
            },
            "strategy": {"enum": list(STRATEGIES)},
            "node_bytes": _BYTES,
            "flight_bytes": _BYTES,
            "on_ray": _FLAG,
            "trials": _COUNT,
            "at_least": _FLAG,
            "limit": _RESOURCE,
            "uses": {
                "type": "array",
                "description": "nodes that hold the same; admit_bytes and object_store_bytes are what to start Ray with there",
                "items": described(
                    {
                        "group": _COUNT,
                        "nodes": _COUNT,
                        "bundles": _COUNTS,
                        "trials": _COUNT,
                        "memory_bytes": _BYTES,
                        "node_bytes": _BYTES,
                        "object_store_bytes": _MAYBE_BYTES,
                        "ram_bytes": _BYTES,
                        "usable_bytes": _BYTES,
                        "admit_bytes": _BYTES,
                        "cpus": _NUMBER,
                        "gpus": {"type": "array", "items": _NUMBER},
                    }
                ),
            },
            "idle_nodes": _COUNT,
            "holds": {
                "type": "array",
                "description": "bundles of a role that an empty node holds, and by each resource alone",
                "items": described(
                    {"group": _COUNT, "role": _TEXT, "count": _COUNT, "limit": _RESOURCE, "by": _COUNTS}
                ),
            },
            "most": {"type": ["object", "null"], "properties": {"role": _TEXT, "count": _COUNT}},
            "shards": {
                "type": ["object", "null"],
                "properties": {"path": _TEXT, "whole": _COUNT, "count": _COUNT, "each": _COUNT},
            },
            "lacks": {
                "type": "array",
                "items": described(
                    {
                        "role": _TEXT,
                        "count": _COUNT,
                        "never": _FLAG,
                        "group": _COUNT,
                        "resource": _TEXT,
                        "needs": _NUMBER,
                        "has": _NUMBER,
                        "machine": _MAYBE_TEXT,
                        "nodes": {"type": ["integer", "null"]},
                    }
                ),
            },
        }
    ),
}
