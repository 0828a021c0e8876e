"""Why a trial finds no place on nodes, and what would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from rlmem.cluster.answers import Holds, holds_on, over_on
from rlmem.cluster.filling import trials_on
from rlmem.cluster.nodes import MOST_NODES, group_of
from rlmem.cluster.packing import Packing, pack
from rlmem.cluster.room import SHARES, Frame, added, frame_of, largest
from rlmem.cluster.workload import STRICT_PACK, STRICT_SPREAD
from rlmem.core.machines import MACHINES, Machine
from rlmem.core.resources import CUSTOM
from rlmem.core.roles import TRIAL

#: The resource of a lack that is of nodes that differ.
NODES = "nodes"
#: Makers of machines that clusters are made of.
_CLOUDS = ("aws-", "gcp-", "azure-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lack:
    """Bundles that found no place: what stops them, and what would do."""

    #: Of the bundles; the trial's, where it is short as a whole.
    role: str
    count: int
    #: Whether no node could hold one even when it is empty.
    never: bool
    #: The group that comes nearest, and what it is short of.
    group: int
    resource: str
    #: What one bundle needs there in all, and what there is: bytes, cores, so many of a custom resource, or nodes.
    needs: float
    has: float
    #: The smallest machine (of RAM) or card (of VRAM) in the catalogue that would do.
    machine: str | None = None
    #: So many nodes of that group would hold a trial.
    nodes: int | None = None


def lacks(packing: Packing) -> tuple[Lack, ...]:
    """Why a trial does not fit, role by role, and what would."""
    found = tuple(_lack(packing, role, count) for role, count in packing.unplaced)
    strict = packing.workload.strategy == STRICT_PACK and packing.workload.bundles > 1
    return (_together(packing),) if strict and found and not any(lack.never for lack in found) else found


def _lack(packing: Packing, role: str, count: int) -> Lack:
    frames = packing.frames
    roles = [need.role for need in packing.workload.needs]
    index = roles.index(role)
    rows = [holds_on(frame, group, index) for group, frame in enumerate(frames)]
    # The group that holds the most; among those that hold none, the one that is short of the fewest things, by the least.
    row = max(
        rows, key=lambda row: (row.count, -sum(not n for _, n in row.by), -_shortage(frames[row.group], index, row))
    )
    frame, never = frames[row.group], row.count == 0
    resource = row.limit or "ram"
    needs, has = _amounts(frame, index, resource)
    if packing.workload.strategy == STRICT_SPREAD and not never:
        resource, needs = NODES, packing.workload.bundles
        has = sum(packing.groups[each.group].count for each in rows if each.count)
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


def _together(packing: Packing) -> Lack:
    """What the node that comes nearest lacks to hold a whole trial, each part of which it holds."""
    rows = [(*_short(frame), group) for group, frame in enumerate(packing.frames)]
    resource, needs, has, group = min(rows, key=lambda row: row[1] / row[2] if row[2] else inf)

    def holds(machine: Machine) -> bool:
        frame = frame_of(group_of(machine), packing.workload, packing.terms)
        return trials_on(frame, frame.empty, 1) > 0

    gpu = any(need.vram_bytes for need in packing.workload.needs)
    machine = None if resource.startswith(CUSTOM) else _smallest(holds, gpu=gpu)
    return Lack(role=TRIAL, count=1, never=True, group=group, resource=resource, needs=needs, has=has, machine=machine)


def _short(frame: Frame) -> tuple[str, float, float]:
    """What an empty node has the least of, for a whole trial: the resource, what is needed and what there is."""
    units = frame.empty.units
    for ask in frame.asks:
        units = added(units, ask.units, ask.count)
    over = frame.over(sum(ask.count * ask.memory_bytes for ask in frame.asks), frame.home_bytes, units)
    worst, needs, has = "vram", 0.0, 0.0
    for resource, amount in over.items():
        if amount > 0:
            there = _has(frame, resource)
            counted = SHARES if resource == "cpus" or resource.startswith(CUSTOM) else 1
            if not has or (there and amount / counted / there > needs / has - 1):
                worst, needs, has = resource, there + amount / counted, there
    if worst == "vram":
        needs = sum(ask.count * ask.vram_bytes for ask in frame.asks)
        has = frame.group.gpus * (frame.group.vram_bytes or 0)
    return worst, needs, has


def _has(frame: Frame, resource: str) -> float:
    """What an empty node has of a resource."""
    if resource == "cpus":
        return frame.group.cpus or 0
    if resource.startswith(CUSTOM):
        return (dict(frame.units)[resource] or 0) / SHARES
    known = {"memory": frame.group.memory_bytes, "store": frame.group.store_bytes}.get(resource)
    return known or frame.terms.usable_bytes(frame.group)


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
    ask = frame.asks[index]
    if resource == "vram":
        return ask.vram_bytes, frame.group.vram_bytes or 0
    has = _has(frame, resource)
    if resource == "cpus":
        return ask.units[0] / SHARES, has
    if resource.startswith(CUSTOM):
        return dict(zip((name for name, _ in frame.units), ask.units, strict=True))[resource] / SHARES, has
    return has + over_on(frame, index, 1)[resource], has


def _machine(packing: Packing, index: int, resource: str) -> str | None:
    """The smallest card for VRAM, the smallest machine that one can rent for anything else; ``None`` when there is none."""
    need = packing.workload.needs[index]
    if resource.startswith(CUSTOM):
        return None
    if resource == "vram":
        vram = packing.terms.with_margin(need.vram_bytes)
        cards = [card for card in MACHINES if card.kind == "card" and (card.vram_bytes or 0) >= vram]
        return min(cards, key=lambda card: card.vram_bytes or 0).name if cards else None

    def holds(machine: Machine) -> bool:
        return holds_on(frame_of(group_of(machine), packing.workload, packing.terms), 0, index).count > 0

    return _smallest(holds, gpu=need.vram_bytes > 0)


def _smallest(holds: Callable[[Machine], bool], *, gpu: bool) -> str | None:
    """The smallest machine to rent that will do; a GPU that nobody uses is no reason to rent one."""
    hosts = [machine for machine in MACHINES if machine.name.startswith(_CLOUDS) and holds(machine)]
    sizes = {host.name: (0 if gpu else host.gpus, host.ram_bytes or 0, host.cores or 0) for host in hosts}
    return min(sizes, key=lambda name: sizes[name]) if sizes else None


def _nodes(packing: Packing, group: int) -> int | None:
    """How many nodes of a group would make room for one trial, the others as they are."""

    def short(count: int) -> bool:
        groups = [replace(each, count=count) if i == group else each for i, each in enumerate(packing.groups)]
        return not pack(packing.workload, groups, packing.terms, trials=1).trials

    found = largest(short, MOST_NODES) + 1
    return found if found <= MOST_NODES else None
