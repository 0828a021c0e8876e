"""Bundles onto nodes: first fit, the largest first, equal nodes and equal bundles counted rather than visited.

A trial goes to one node if one has room for all of it, as Ray's strategy PACK prefers; what fits no single node is spread, driver
first. Nodes are filled in the order in which they were given. Where the first nodes have GPUs and others have none, a driver could
take the RAM that a learner needs beside a GPU; so orders with the others first are tried too, over ever more of the groups, and the
one that holds the most is taken. Further groups at the end therefore never hold less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.room import SHARES, Ask, Frame, Room, Terms, frame_of, largest, most, placed, room_for
from rlmem.cluster.workload import Workload

#: Unless asked otherwise.
TERMS = Terms()
#: More trials than anybody runs at once on one node.
_MOST_TRIALS = 1_000_000
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
class _Block:
    """So many nodes of a group in the same state."""

    group: int
    nodes: int
    room: Room


@dataclass(slots=True)
class _Try:
    """Trials placed with the groups in one order, and where."""

    done: int = 0
    at_least: bool = False
    blocks: list[_Block] = field(default_factory=list)
    unplaced: dict[str, int] = field(default_factory=dict)


def pack(
    workload: Workload, groups: Iterable[NodeGroup], terms: Terms = TERMS, *, trials: int | None = None
) -> Packing:
    """As many trials as fit at once, or the number asked for; if not even one does, as much of one as has room."""
    nodes = tuple(groups)
    frames = tuple(frame_of(group, workload, terms) for group in nodes)
    wanted = _MOST_TRIALS * 1000 if trials is None else trials
    tries = [_tried(workload, frames, wanted, order) for order in _orders(frames)]
    best = max(tries, key=lambda each: each.done)  # the first of equals
    if not best.done and wanted:
        best = _housed(workload, frames) or tries[0]
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


def _empty(frames: tuple[Frame, ...], order: Iterable[int]) -> list[_Block]:
    return [_Block(i, frames[i].group.count, Room(shares=frames[i].shares)) for i in order]


def _tried(workload: Workload, frames: tuple[Frame, ...], wanted: int, order: tuple[int, ...]) -> _Try:
    """Trial after trial, with the groups in one order."""
    blocks, done = _whole(_empty(frames, order), frames, wanted)
    done_before = done
    exhausted: list[_Block] = []
    unplaced: dict[str, int] = {}
    while done < wanted and done - done_before < MOST_SPREAD and sum(need.count for need in workload.needs) > 1:
        after, missing = _spread(blocks, frames, workload)
        if missing:
            if not done:
                blocks, unplaced = after, missing
            break
        blocks, done = _settled(after, frames, exhausted), done + 1
    else:
        if not done and wanted:
            unplaced = {need.role: need.count for need in workload.needs}
    at_least = done - done_before >= MOST_SPREAD
    return _Try(done=done, at_least=at_least, blocks=[*exhausted, *blocks], unplaced=unplaced)


def _housed(workload: Workload, frames: tuple[Frame, ...]) -> _Try | None:
    """One trial with its driver on a node of any group, where none fits with it on the first that holds it."""
    for home in range(len(frames)):
        blocks, missing = _spread(_empty(frames, range(len(frames))), frames, workload, home=home)
        if not missing:
            return _Try(done=1, at_least=True, blocks=blocks)
    return None


def _whole(blocks: list[_Block], frames: tuple[Frame, ...], wanted: int) -> tuple[list[_Block], int]:
    """Trials that one node holds by itself, as many as each has room for."""
    out, done = [], 0
    for block in blocks:
        frame = frames[block.group]
        each = trials_on(frame, block.room, min(wanted - done, _MOST_TRIALS))
        if not each:
            out.append(block)
            continue
        full = min(block.nodes, (wanted - done) // each)
        rest = min(wanted - done - full * each, each) if full < block.nodes else 0
        parts = ((full, each), (1 if rest else 0, rest), (block.nodes - full - (1 if rest else 0), 0))
        for number, trials in parts:
            if number:
                room = _with_trials(frame, block.room, trials) if trials else block.room
                out.append(_Block(block.group, number, room))
        done += full * each + rest
    return out, done


def trials_on(frame: Frame, room: Room, at_most: int) -> int:
    """How many whole trials a node holds."""
    memory = sum(ask.count * ask.memory_bytes for ask in frame.asks)
    cpus = sum(ask.count * ask.cpus for ask in frame.asks)

    def holds(count: int) -> bool:
        return frame.holds(
            room.memory_bytes + count * memory, room.flight_bytes + count * frame.home_bytes, room.cpus + count * cpus
        )

    sharing = [ask for ask in frame.asks if ask.share]
    free = sum(SHARES - taken for taken in room.shares)
    bound = min(at_most, free // sum(ask.count * ask.share for ask in sharing)) if sharing else at_most
    found = largest(holds, bound)
    # Whatever is left of a GPU when its shares are in place is of no use to a share that is larger.
    return largest(lambda count: _shared(frame, room, count) is not None, found) if sharing else found


def _shared(frame: Frame, room: Room, trials: int) -> tuple[int, ...] | None:
    """What is taken of each GPU with so many more trials, the largest shares first; ``None`` when they find no place."""
    taken = Room(shares=room.shares)
    for ask in sorted((ask for ask in frame.asks if ask.share), key=lambda ask: -ask.share):
        if room_for(taken.shares, ask.share) < trials * ask.count:
            return None
        taken = placed(taken, ask, trials * ask.count, home=True)
    return taken.shares


def _with_trials(frame: Frame, room: Room, trials: int) -> Room:
    """A room with so many whole trials in it, which it is known to hold."""
    shares = _shared(frame, room, trials)
    assert shares is not None, "counted as having room"
    for ask in frame.asks:
        room = placed(room, replace(ask, share=0), trials * ask.count, home=True)
    flight = room.flight_bytes + trials * frame.home_bytes
    return replace(room, flight_bytes=flight, homes=room.homes + trials, shares=shares)


def _spread(
    blocks: list[_Block], frames: tuple[Frame, ...], workload: Workload, *, home: int | None = None
) -> tuple[list[_Block], dict[str, int]]:
    """One trial over several nodes, its driver in a group if one is named; what found no place is returned by role."""
    missing: dict[str, int] = {}
    blocks, house = _driven(blocks, frames, home)
    first = workload.needs[0].role
    if house is None:
        missing[first] = 1
    counts = [need.count - (index == 0) for index, need in enumerate(workload.needs)]
    order = sorted(
        range(len(counts)), key=lambda i: (workload.needs[i].vram_bytes, workload.needs[i].ram_bytes), reverse=True
    )
    for index in order:
        if counts[index]:
            blocks, left = _fill(blocks, frames, index, counts[index], house)
            if left:
                role = workload.needs[index].role
                missing[role] = missing.get(role, 0) + left
    return blocks, missing


def _driven(blocks: list[_Block], frames: tuple[Frame, ...], group: int | None) -> tuple[list[_Block], _Block | None]:
    """The driver on the first node (of a group) that has room for it and for all that is in flight."""
    for index, block in enumerate(blocks):
        if group is not None and block.group != group:
            continue
        frame = frames[block.group]
        laden = replace(block.room, flight_bytes=block.room.flight_bytes + frame.home_bytes, homes=block.room.homes + 1)
        if not most(frame, laden, frame.asks[0], 1, home=True):
            continue
        home = _Block(block.group, 1, placed(laden, frame.asks[0], 1, home=True))
        rest = [_Block(block.group, block.nodes - 1, block.room)] if block.nodes > 1 else []
        return [*blocks[:index], home, *rest, *blocks[index + 1 :]], home
    return blocks, None


def _fill(
    blocks: list[_Block], frames: tuple[Frame, ...], index: int, count: int, home: _Block | None
) -> tuple[list[_Block], int]:
    """Bundles of one role, in the order of the nodes; what is left over is returned too."""
    out: list[_Block] = []
    for block in blocks:
        frame = frames[block.group]
        ask = frame.asks[index]
        each = most(frame, block.room, ask, count, home=block is home) if count else 0
        if not each:
            out.append(block)
            continue
        if block is home:  # one node, and it stays the trial's home
            block.room = placed(block.room, ask, each, home=True)
            out.append(block)
            count -= each
            continue
        full = min(block.nodes, count // each)
        rest = count - full * each if full < block.nodes else 0
        for number, bundles in ((full, each), (1 if rest else 0, rest), (block.nodes - full - (1 if rest else 0), 0)):
            if number:
                room = placed(block.room, ask, bundles, home=False) if bundles else block.room
                out.append(_Block(block.group, number, room))
        count -= full * each + rest
    return out, count


def _settled(blocks: list[_Block], frames: tuple[Frame, ...], exhausted: list[_Block]) -> list[_Block]:
    """Blocks that can still take something, neighbours in the same state as one; the others are put aside."""
    out: list[_Block] = []
    for block in blocks:
        frame = frames[block.group]
        if not any(_takes(frame, block.room, ask) for ask in frame.asks):
            exhausted.append(block)
        elif out and (out[-1].group, out[-1].room) == (block.group, block.room):
            out[-1].nodes += block.nodes
        else:
            out.append(block)
    return out


def _takes(frame: Frame, room: Room, ask: Ask) -> bool:
    return bool(most(frame, room, ask, 1, home=True))


def _uses(blocks: list[_Block], frames: tuple[Frame, ...]) -> tuple[Use, ...]:
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
        cpus=room.cpus / SHARES,
        gpus=tuple(share / SHARES for share in room.shares),
    )
