"""Bundles onto nodes: first fit, the largest first, equal nodes and equal bundles counted rather than visited.

A trial goes to one node if one has room for all of it, as Ray's strategy PACK prefers; what fits no single node is spread, driver
first. Nodes are filled in the order in which they were given. Where the first nodes have GPUs and others have none, a driver could
take the RAM that a learner needs beside a GPU; so orders with the others first are tried too, over ever more of the groups, and the
one that holds the most is taken. Further groups at the end therefore never hold less.

STRICT_PACK is one node for every trial, STRICT_SPREAD another node for every bundle of one. SPREAD is a wish, and holds as much as PACK.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rlmem.cluster.filling import MOST_TRIALS, Block, apart, empty, settled, spread, whole
from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.room import SHARES, Frame, Room, Terms, frame_of
from rlmem.cluster.workload import STRICT_PACK, STRICT_SPREAD, Workload

#: Unless asked otherwise.
TERMS = Terms()
#: Trials that span nodes are placed one by one; beyond so many the answer is "at least".
MOST_SPREAD = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Nodes of a group that hold the same."""

    group: int
    nodes: int
    #: Bundles by role, on each of them.
    bundles: tuple[tuple[str, int], ...]
    #: Trials whose driver is on each of them.
    homes: int
    #: What bundles ask for, margin included.
    memory_bytes: int
    #: What the node pays once, margin included.
    node_bytes: int
    #: The object store to start the node with; ``None`` when none is needed.
    store_bytes: int | None
    #: All of it together, and what of the node's RAM may be in use.
    ram_bytes: int
    usable_bytes: int
    cpus: float
    #: Taken of each GPU, 1.0 being all of it.
    gpus: tuple[float, ...]

    @property
    def admit_bytes(self) -> int:
        """What Ray may admit on such a node (``ray start --memory``): then nothing can be placed there that does not fit."""
        return self.usable_bytes - self.node_bytes - (self.store_bytes or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Where trials of a workload go."""

    workload: Workload
    groups: tuple[NodeGroup, ...]
    terms: Terms
    trials: int
    #: Whether more trials would fit than were counted.
    at_least: bool = False
    uses: tuple[Use, ...] = ()
    #: Bundles of the first trial that found no place, by role; empty when a trial fits.
    unplaced: tuple[tuple[str, int], ...] = ()

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The groups, as the workload sees them."""
        return tuple(frame_of(group, self.workload, self.terms) for group in self.groups)

    @property
    def idle_nodes(self) -> int:
        """Nodes that hold nothing."""
        return sum(group.count for group in self.groups) - sum(use.nodes for use in self.uses)


@dataclass(slots=True)
class _Try:
    """Trials placed with the groups in one order, and where."""

    done: int = 0
    at_least: bool = False
    blocks: list[Block] = field(default_factory=list)
    unplaced: dict[str, int] = field(default_factory=dict)


def pack(
    workload: Workload, groups: Iterable[NodeGroup], terms: Terms = TERMS, *, trials: int | None = None
) -> Packing:
    """As many trials as fit at once, or the number asked for; if not even one does, as much of one as has room."""
    nodes = tuple(groups)
    frames = tuple(frame_of(group, workload, terms) for group in nodes)
    wanted = MOST_TRIALS * 1000 if trials is None else trials
    tries = [_tried(workload, frames, wanted, order) for order in _orders(frames)]
    best = max(tries, key=lambda each: each.done)  # the first of equals
    if not best.done and wanted:
        strict = workload.strategy == STRICT_PACK and workload.bundles > 1
        best = _together(workload, frames) if strict else _housed(workload, frames) or tries[0]
    return Packing(
        workload=workload,
        groups=nodes,
        terms=terms,
        trials=best.done,
        at_least=trials is None and (best.at_least or best.done == wanted),
        uses=_uses(best.blocks, frames),
        unplaced=tuple(best.unplaced.items()),
    )


def _orders(frames: tuple[Frame, ...]) -> Iterator[tuple[int, ...]]:
    """Groups as they were given; with a driver that needs no GPU beside roles that do, the first few with GPUs last."""
    yield tuple(range(len(frames)))
    if any(frame.asks[0].share == 0 and any(ask.share for ask in frame.asks) for frame in frames):
        for count in range(2, len(frames) + 1):
            order = tuple(sorted(range(count), key=lambda index: frames[index].group.gpus > 0))
            if order != tuple(range(count)):
                yield order


def _tried(workload: Workload, frames: tuple[Frame, ...], wanted: int, order: tuple[int, ...]) -> _Try:
    """Trial after trial, with the groups in one order."""
    strict = workload.strategy == STRICT_SPREAD and workload.bundles > 1
    blocks, done = (empty(frames, order), 0) if strict else whole(empty(frames, order), frames, wanted)
    done_before = done
    exhausted: list[Block] = []
    unplaced: dict[str, int] = {}
    spans = workload.strategy != STRICT_PACK and workload.bundles > 1
    while spans and done < wanted and done - done_before < MOST_SPREAD:
        after, missing = (apart if strict else spread)(blocks, frames, workload)
        if missing:
            if not done:
                blocks, unplaced = after, missing
            break
        blocks, done = settled(after, frames, exhausted, order if strict else None), done + 1
    else:
        if not done and wanted:
            unplaced = {need.role: need.count for need in workload.needs}
    at_least = done - done_before >= MOST_SPREAD
    return _Try(done=done, at_least=at_least, blocks=[*exhausted, *blocks], unplaced=unplaced)


def _housed(workload: Workload, frames: tuple[Frame, ...]) -> _Try | None:
    """One trial with its driver on a node of any group, where none fits with it on the first that holds it."""
    strict = workload.strategy == STRICT_SPREAD
    for home in range(len(frames)):
        blocks, missing = (apart if strict else spread)(empty(frames, range(len(frames))), frames, workload, home=home)
        if not missing:
            return _Try(done=1, at_least=True, blocks=blocks)
    return None


def _together(workload: Workload, frames: tuple[Frame, ...]) -> _Try:
    """As much of one trial as a single node holds, of the group that holds the most."""
    tries = []
    for group, frame in enumerate(frames):
        blocks, missing = spread([Block(group, 1, frame.empty)], frames, workload)
        tries.append(_Try(done=int(not missing), at_least=not missing, blocks=blocks, unplaced=missing))
    return min(tries, key=lambda each: sum(each.unplaced.values()))


def _uses(blocks: list[Block], frames: tuple[Frame, ...]) -> tuple[Use, ...]:
    """Blocks as rows, in the order of the groups; nodes that differ only in what is in flight share a row, with the most of it."""
    rows: dict[tuple[int, Room], tuple[int, int]] = {}
    for block in sorted(blocks, key=lambda block: block.group):
        if block.room.bundles:
            key = (block.group, replace(block.room, flight_bytes=0))
            nodes, flight = rows.get(key, (0, 0))
            rows[key] = (nodes + block.nodes, max(flight, block.room.flight_bytes))
    return tuple(
        _use(frames[group], group, replace(room, flight_bytes=flight), nodes)
        for (group, room), (nodes, flight) in rows.items()
    )


def _use(frame: Frame, group: int, room: Room, nodes: int) -> Use:
    roles = {ask.role: number for number, ask in enumerate(frame.asks)}
    return Use(
        group=group,
        nodes=nodes,
        bundles=tuple(sorted(room.bundles, key=lambda item: roles[item[0]])),
        homes=room.homes,
        memory_bytes=room.memory_bytes,
        node_bytes=frame.node_bytes,
        store_bytes=frame.store_bytes(room) or None,
        ram_bytes=frame.ram_bytes(room),
        usable_bytes=frame.terms.usable_bytes(frame.group),
        cpus=room.units[0] / SHARES,
        gpus=tuple(share / SHARES for share in room.shares),
    )
