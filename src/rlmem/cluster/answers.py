"""What people ask of a packing: how many of a role a node holds and what stops it, what is missing, and what would do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

from rlmem.cluster.nodes import MOST_NODES, NodeGroup, group_of
from rlmem.cluster.packing import TERMS, Packing, pack
from rlmem.cluster.room import RESOURCES, SHARES, Frame, Terms, frame_of, largest, room_for
from rlmem.cluster.workload import Workload
from rlmem.machines import MACHINES, Machine

#: The role whose number users turn: EnvRunners of RLlib.
RUNNERS = "env-runner"
#: More of one role than any node holds, or any run has.
MOST_BUNDLES = 1_000_000
#: Where numbers of bundles have to be tried: one by one up to about so many, beyond in steps of a part of what is more.
FEW, STEP = 100, 20
#: Makers of machines that clusters are made of.
_CLOUDS = ("aws-", "gcp-", "azure-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """How many bundles of a role an empty node of a group holds, and which resource stops it."""

    group: int
    role: str
    count: int
    limit: str | None
    #: By each resource alone; a resource that limits nothing is left out.
    by: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Bundles that found no place: what stops them, and what would do."""

    role: str
    count: int
    #: Whether no node could hold one even when it is empty.
    never: bool
    #: The group that comes nearest, and what it is short of.
    group: int
    resource: str
    #: What one bundle needs there in all, and what there is: bytes, or cores.
    needs: float
    has: float
    #: The smallest machine (of RAM) or card (of VRAM) in the catalogue that would do.
    machine: str | None = None
    #: So many nodes of that group would hold a trial.
    nodes: int | None = None


def node_holds(packing: Packing) -> tuple[Holds, ...]:
    """For every group and role, what an empty node holds."""
    return tuple(
        _holds(frame, group, index)
        for group, frame in enumerate(packing.frames)
        for index in range(len(packing.workload.needs))
    )


def _holds(frame: Frame, group: int, index: int) -> Holds:
    ask = frame.asks[index]
    by = {}
    for resource in frame.over(0, 0, 0):
        found = largest(_enough(frame, index, resource), MOST_BUNDLES)
        if found < MOST_BUNDLES:
            by[resource] = found
    if ask.share:
        by["vram"] = room_for(frame.shares, ask.share)
    limit = min(by, key=lambda resource: (by[resource], RESOURCES.index(resource)), default=None)
    count = by[limit] if limit else MOST_BUNDLES
    return Holds(group=group, role=ask.role, count=count, limit=limit, by=tuple(by.items()))


def _enough(frame: Frame, index: int, resource: str) -> Callable[[int], bool]:
    return lambda count: _over(frame, index, count)[resource] <= 0


def _over(frame: Frame, index: int, count: int) -> dict[str, int]:
    """How far so many bundles of a role overcommit an empty node; each driver brings all that is in flight."""
    ask = frame.asks[index]
    flight = ask.flight_bytes if index else frame.home_bytes
    return frame.over(count * ask.memory_bytes, count * flight, count * ask.cpus)


def lacks(packing: Packing) -> tuple[Lack, ...]:
    """Why a trial does not fit, role by role, and what would."""
    return tuple(_lack(packing, role, count) for role, count in packing.unplaced)


def _lack(packing: Packing, role: str, count: int) -> Lack:
    frames = packing.frames
    roles = [need.role for need in packing.workload.needs]
    index = roles.index(role)
    rows = [_holds(frame, group, index) for group, frame in enumerate(frames)]
    # The group that holds the most; among those that hold none, the one that is short of the fewest things, by the least.
    row = max(
        rows, key=lambda row: (row.count, -sum(not n for _, n in row.by), -_shortage(frames[row.group], index, row))
    )
    frame, never = frames[row.group], row.count == 0
    resource = row.limit or "ram"
    needs, has = _amounts(frame, index, resource)
    return Lack(
        role=role,
        count=count,
        never=never,
        group=row.group,
        resource=resource,
        needs=needs,
        has=has,
        machine=_machine(packing, index, resource) if never else None,
        nodes=None if never else _nodes(packing, row.group),
    )


def _shortage(frame: Frame, index: int, row: Holds) -> float:
    """The largest part of a bundle's need that an empty node lacks."""
    short = 0.0
    for resource, count in row.by:
        if not count:
            needs, has = _amounts(frame, index, resource)
            short = max(short, 1 - has / needs if needs else 0.0)
    return short


def _amounts(frame: Frame, index: int, resource: str) -> tuple[float, float]:
    """What one bundle needs of a resource on an empty node, and what there is."""
    ask, group = frame.asks[index], frame.group
    if resource == "vram":
        return ask.vram_bytes, group.vram_bytes or 0
    if resource == "cpus":
        return ask.cpus / SHARES, group.cpus or 0
    has = {"memory": group.memory_bytes, "store": group.store_bytes}.get(resource) or frame.terms.usable_bytes(group)
    return has + _over(frame, index, 1)[resource], has


def _machine(packing: Packing, index: int, resource: str) -> str | None:
    """The smallest card for VRAM, the smallest machine that one can rent for anything else; ``None`` when there is none."""
    need = packing.workload.needs[index]
    if resource == "vram":
        vram = packing.terms.with_margin(need.vram_bytes)
        cards = [card for card in MACHINES if card.kind == "card" and (card.vram_bytes or 0) >= vram]
        return min(cards, key=lambda card: card.vram_bytes or 0).name if cards else None

    def holds(machine: Machine) -> bool:
        return _holds(frame_of(group_of(machine), packing.workload, packing.terms), 0, index).count > 0

    hosts = [machine for machine in MACHINES if machine.name.startswith(_CLOUDS) and holds(machine)]
    idle = 0 if need.vram_bytes else 1  # a GPU that nobody uses is no reason to rent a machine
    return min(hosts, key=lambda host: (idle * host.gpus, host.ram_bytes or 0, host.cores or 0)).name if hosts else None


def _nodes(packing: Packing, group: int) -> int | None:
    """How many nodes of a group would make room for one trial, the others as they are."""

    def short(count: int) -> bool:
        groups = [replace(each, count=count) if i == group else each for i, each in enumerate(packing.groups)]
        return not pack(packing.workload, groups, packing.terms, trials=1).trials

    found = largest(short, MOST_NODES) + 1
    return found if found <= MOST_NODES else None


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
