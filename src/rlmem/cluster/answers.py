"""What people ask of a packing: how many of a role a node holds and what stops it, and how many a run can have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import TERMS, Packing, pack
from rlmem.cluster.room import Frame, Terms, largest, room_for
from rlmem.cluster.workload import Workload
from rlmem.core.resources import rank

#: The role whose number users turn: EnvRunners of RLlib.
RUNNERS = "env-runner"
#: More of one role than any node holds, or any run has.
MOST_BUNDLES = 1_000_000
#: Where numbers of bundles have to be tried: one by one up to about so many, beyond in steps of a part of what is more.
FEW, STEP = 100, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """How many bundles of a role an empty node of a group holds, and which resource stops it."""

    group: int
    role: str
    count: int
    limit: str | None
    #: By each resource alone; a resource that limits nothing is left out.
    by: tuple[tuple[str, int], ...]


def node_holds(packing: Packing) -> tuple[Holds, ...]:
    """For every group and role, what an empty node holds."""
    return tuple(
        holds_on(frame, group, index)
        for group, frame in enumerate(packing.frames)
        for index in range(len(packing.workload.needs))
    )


def holds_on(frame: Frame, group: int, index: int) -> Holds:
    """How many bundles of a role an empty node holds."""
    ask = frame.asks[index]
    by = {}
    for resource in over_on(frame, index, 0):
        found = largest(_enough(frame, index, resource), MOST_BUNDLES)
        if found < MOST_BUNDLES:
            by[resource] = found
    if ask.share:
        by["vram"] = room_for(frame.empty.shares, ask.share)
    limit = min(by, key=lambda resource: (by[resource], rank(resource)), default=None)
    count = by[limit] if limit else MOST_BUNDLES
    return Holds(group=group, role=ask.role, count=count, limit=limit, by=tuple(by.items()))


def _enough(frame: Frame, index: int, resource: str) -> Callable[[int], bool]:
    return lambda count: over_on(frame, index, count)[resource] <= 0


def over_on(frame: Frame, index: int, count: int) -> dict[str, int]:
    """How far so many bundles of a role overcommit an empty node; each driver brings all that is in flight."""
    ask = frame.asks[index]
    flight = ask.flight_bytes if index else frame.home_bytes
    return frame.over(count * ask.memory_bytes, count * flight, tuple(count * unit for unit in ask.units))


def most_bundles(
    workload: Workload,
    role: str,
    groups: Iterable[NodeGroup],
    terms: Terms = TERMS,
    *,
    again: Callable[[int], Workload] | None = None,
) -> int:
    """The largest number of bundles of a role with which one trial fits; 0 when none was found.

    ``again`` plans the run anew with so many; without it, what is in flight is taken to grow with them. Where bundles shrink as their
    number grows (RLlib divides a batch among its EnvRunners), fewer need not fit where more do: numbers are then tried from the
    most that the smallest bundles would allow downward to the number that is asked for, one by one where they are few.
    """
    nodes = tuple(groups)
    changed = cache(again or (lambda count: resized(workload, role, count)))

    def holds(one: Workload) -> bool:
        return bool(pack(one, nodes, terms, trials=1).trials)

    def fits(count: int) -> bool:
        return holds(changed(count))

    def bound(at_most: int) -> int:
        least = _least((changed(1), workload, changed(max(1, at_most))))
        flight = -(-least.store_bytes // max(1, at_most))
        return largest(lambda count: holds(_having(least, role, count, count * flight)), at_most)

    known = next(need.count for need in workload.needs if need.role == role) if holds(workload) else 0
    above = 1 + bound(bound(MOST_BUNDLES))  # bundles are the smallest at the ends of a range: a narrower one says more
    while (count := above - max(1, (above - FEW) // STEP)) > known:
        if fits(count):
            known = count
            break
        above = count
    return known + largest(lambda more: fits(known + more), max(0, above - known - 1))


def _least(workloads: Iterable[Workload]) -> Workload:
    """The least that variants of one run ask for: the smallest bundle of every role, and the fewest bytes in flight."""
    variants = tuple(workloads)
    needs = tuple(
        replace(
            alike[0],
            ram_bytes=min(need.ram_bytes for need in alike),
            vram_bytes=min(need.vram_bytes for need in alike),
            cache_bytes=min(need.cache_bytes for need in alike),
        )
        for alike in zip(*(each.needs for each in variants), strict=True)
    )
    return replace(variants[0], needs=needs, store_bytes=min(each.store_bytes for each in variants))


def _having(workload: Workload, role: str, count: int, store_bytes: int) -> Workload:
    """The same bundles, another number of one role and something else in flight."""
    needs = tuple(replace(need, count=count) if need.role == role else need for need in workload.needs)
    return replace(workload, needs=needs, store_bytes=store_bytes)


def resized(workload: Workload, role: str, count: int) -> Workload:
    """The same run with another number of bundles of one role, and as much more in flight."""
    before = next(need.count for need in workload.needs if need.role == role)
    return _having(workload, role, count, -(-workload.store_bytes * count // before))
