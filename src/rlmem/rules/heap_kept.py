"""The program has freed memory that its heap has not given back.

The C library keeps what is freed, in case it is needed again: only the end of a heap is returned to the system, and each
thread may have an arena of its own. After a peak of many middle-sized blocks (minibatches, pickled observations), the
process stays as large as it was, while the objects are gone.

A list that keeps autograd graphs scatters free memory between them; then the list is the cause, and is named instead.

``rlmem explain --trim`` asks the C library to return it and says what came back; without ``--trim``, what is free inside the
heap is told, of which some may be returned already.

Use instead: ``malloc_trim(0)`` after each update (``ctypes.CDLL(None).malloc_trim(0)``), ``MALLOC_ARENA_MAX=2`` in the
environment of the program, or jemalloc.

Fix: none.

Reference: PrimeIntellect-ai/prime-rl#2527, #2821; sgl-project/SpecForge#491; dask/dask#3530.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import Explanation, TreeExplanation
from rlmem.rules.base import Rule
from rlmem.units import MIB, format_size

WORTH_BYTES = 128 * MIB
#: Of the resident memory.
WORTH_SHARE = 0.1
#: A list that keeps graphs of this share of what is free is what the heap grew with.
GRAPHS_SHARE = 0.1
_HEAPS = ("heap", "malloc arenas")


def check_live(rule: Rule, tree: TreeExplanation) -> Iterator[Finding]:
    """Fires for a heap with much free memory in it, or one that gave much back when asked."""
    for process in tree.processes:
        kept = process.trimmed_bytes if process.trimmed_bytes is not None else _free(process)
        if kept is None or kept < max(WORTH_BYTES, WORTH_SHARE * process.rss_bytes):
            continue
        done = process.trimmed_bytes is not None
        if not done and (_graphs(process) >= GRAPHS_SHARE * kept or _is_part_of_a_graph(process)):
            continue  # what is free lies between graphs that are kept: it comes back when they go
        title = (
            f"malloc_trim gave back {format_size(kept)} that the program had freed before"
            if done
            else f"up to {format_size(kept)} of the heap are free and still with the process"
        )
        yield rule.finding(
            title,
            severity=rule.severity if done else "info",
            location=f"{process.pid}",
            saves_bytes=kept,
            remedy="malloc_trim(0) after each update, or MALLOC_ARENA_MAX=2 in its environment",
        )


def _graphs(process: Explanation) -> int:
    return sum(holding.graph_bytes for holding in process.holdings if holding.keeps_graphs)


def _free(process: Explanation) -> int | None:
    """What the heap calls free, no more than is resident there without an owner."""
    if process.free_heap_bytes is None:
        return None
    resident = sum(portion.resident_bytes for portion in process.portions if portion.name in _HEAPS)
    return min(process.free_heap_bytes, resident)


def _is_part_of_a_graph(process: Explanation) -> bool:
    """Whether a graph was too long to be looked at to its end: what is in the heap without an owner may be the rest of it."""
    return any(holding.graph_more for holding in process.holdings)
