"""What ``rlmem explain --ray`` prints with ``--json``: nodes, processes, owners; and its schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rlmem.cluster.holdings import ClusterHoldings, NodeHoldings, ProcessHoldings, place
from rlmem.cluster.roles import STORE
from rlmem.errors import UsageError
from rlmem.holdings import WAYS
from rlmem.report.contract import described, problems
from rlmem.version import __version__

CLUSTER_SCHEMA = "rlmem.cluster/1"
_SIZE: dict[str, Any] = {"type": ["integer", "null"]}
_WORDS: dict[str, Any] = {"type": ["string", "null"]}
_COUNT: dict[str, Any] = {"type": "integer"}
_TEXT: dict[str, Any] = {"type": "string"}
_NUMBER: dict[str, Any] = {"type": "number"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_HOLDING = described(
    {
        **dict.fromkeys(("path", "kind", "type", "device", "note", "file", "added_at"), _TEXT),
        **dict.fromkeys(("nbytes", "resident_bytes", "graphs", "graph_bytes"), _COUNT),
        **dict.fromkeys(("filled", "capacity", "growth_bytes"), _SIZE),
        "estimated": {"type": "boolean"},
    }
)
_PROCESS = described(
    {
        **dict.fromkeys(("pid", "rss_bytes", "smaller_bytes"), _COUNT),
        **dict.fromkeys(("pss_bytes", "uss_bytes", "swap_bytes", "shmem_bytes", "store_bytes"), _SIZE),
        **dict.fromkeys(("heap_bytes", "vram_bytes", "unexplained_bytes", "parent"), _SIZE),
        **dict.fromkeys(("command", "role"), _TEXT),
        **dict.fromkeys(("actor_class", "actor_name", "actor_id", "label", "trial", "job"), _WORDS),
        "way": {"type": "string", "enum": list(WAYS)},
        "gpus": {"type": "array", "items": {"type": "object"}},
        "portions": {"type": "array", "items": {"type": "object"}},
        "holdings": {"type": "array", "items": _HOLDING},
        "paused_s": _NUMBER,
        "notes": _TEXTS,
    }
)
_NODE = described(
    {
        **dict.fromkeys(("node_id", "address", "host", "limit_source"), _TEXT),
        "is_head": {"type": "boolean"},
        "problem": _WORDS,
        **dict.fromkeys(("pss_bytes", "heap_bytes", "vram_bytes", "ram_bytes", "available_bytes"), _SIZE),
        **dict.fromkeys(("limit_bytes", "limit_used_bytes", "schedulable_bytes", "probe_bytes"), _SIZE),
        "store": described(
            dict.fromkeys(("capacity_bytes", "primary_bytes", "resident_bytes", "spilled_bytes"), _SIZE)
        ),
        "gpus": {"type": "array", "items": {"type": "object"}},
        "processes": {"type": "array", "items": _PROCESS},
        **dict.fromkeys(("seconds", "cpu_s"), _NUMBER),
        "notes": _TEXTS,
    }
)
CLUSTER_JSON_SCHEMA = described(
    {
        "schema": {"type": "string", "enum": [CLUSTER_SCHEMA]},
        **dict.fromkeys(("rlmem", "ray", "address"), _TEXT),
        "complete": {"type": "boolean"},
        "pss_bytes": _SIZE,
        "roles": {
            "type": "array",
            "items": described(
                {
                    "role": _TEXT,
                    "processes": _COUNT,
                    **dict.fromkeys(("heap_bytes", "largest_bytes", "uss_bytes", "vram_bytes"), _SIZE),
                }
            ),
        },
        "nodes": {"type": "array", "items": _NODE},
        "seconds": _NUMBER,
        "notes": _TEXTS,
    }
)


def cluster_document(found: ClusterHoldings) -> dict[str, Any]:
    """The cluster as JSON; sizes are bytes."""
    return {
        "schema": CLUSTER_SCHEMA,
        "rlmem": __version__,
        "ray": found.ray,
        "address": found.address,
        "complete": found.is_complete,
        "pss_bytes": found.pss_bytes,
        "roles": _roles(found),
        "nodes": [_node(each) for each in found.nodes],
        "seconds": found.seconds,
        "notes": list(found.notes),
    }


def read_cluster_document(data: Any, where: str) -> dict[str, Any]:
    """A document that was saved, checked against its schema."""
    wrong = next(problems(data, CLUSTER_JSON_SCHEMA, ""), None)
    if wrong is not None:
        raise UsageError(f"{where}: {wrong}")
    checked: dict[str, Any] = data
    return checked


def _roles(found: ClusterHoldings) -> list[dict[str, Any]]:
    heaps = found.by_role()
    by_role: dict[str, list[ProcessHoldings]] = {}
    for each in found.processes:
        by_role.setdefault(each.role, []).append(each)
    rows = []
    for role in sorted({*heaps, *by_role}, key=place):
        own = by_role.get(role, [])
        rows.append(
            {
                "role": role,
                "processes": len(own),
                "heap_bytes": heaps.get(role),
                "largest_bytes": max((each.heap_bytes for each in own if each.heap_bytes is not None), default=None),
                "uss_bytes": added([each.uss_bytes for each in own]),
                "vram_bytes": added([each.vram_bytes for each in own]),
            }
        )
    return rows


def added(sizes: Sequence[int | None]) -> int | None:
    """The sum of those that are known; None when none is."""
    known = [size for size in sizes if size is not None]
    return sum(known) if known else None


def _node(node: NodeHoldings) -> dict[str, Any]:
    document: dict[str, Any] = _plain(asdict(node))
    document |= {"pss_bytes": node.pss_bytes, "heap_bytes": node.heap_bytes, "vram_bytes": node.vram_bytes}
    for entry, process in zip(document["processes"], node.processes, strict=True):
        entry |= {"heap_bytes": process.heap_bytes, "vram_bytes": process.vram_bytes}
        for row, holding in zip(entry["holdings"], process.holdings, strict=True):
            # Pages of the object store that a process has not touched are there all the same.
            row["growth_bytes"] = 0 if holding.file == STORE else holding.growth_bytes
    document["processes"].sort(key=_process_order)
    return document


def _process_order(process: Mapping[str, Any]) -> tuple[Any, ...]:
    """By role, then the largest first, children after the process that started them."""
    size = process["heap_bytes"] if process["heap_bytes"] is not None else process["rss_bytes"]
    return (*place(process["role"]), process["parent"] is not None, -size, process["pid"])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else value
