"""Nodes as they fill: blocks of equal nodes, trials on one node, over several, and with every bundle on another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rlmem.cluster.room import SHARES, Ask, Frame, Room, added, largest, most, placed, room_for
from rlmem.cluster.workload import Workload

#: More trials than anybody runs at once on one node.
MOST_TRIALS = 1_000_000


@dataclass(slots=True)
class Block:
    """So many nodes of a group in the same state."""

    group: int
    nodes: int
    room: Room


def empty(frames: tuple[Frame, ...], order: Iterable[int]) -> list[Block]:
    """All nodes with nothing on them, the groups in an order."""
    return [Block(i, frames[i].group.count, frames[i].empty) for i in order]


def whole(blocks: list[Block], frames: tuple[Frame, ...], wanted: int) -> tuple[list[Block], int]:
    """Trials that one node holds by itself, as many as each has room for."""
    out, done = [], 0
    for block in blocks:
        frame = frames[block.group]
        each = trials_on(frame, block.room, min(wanted - done, MOST_TRIALS))
        if not each:
            out.append(block)
            continue
        full = min(block.nodes, (wanted - done) // each)
        rest = min(wanted - done - full * each, each) if full < block.nodes else 0
        parts = ((full, each), (1 if rest else 0, rest), (block.nodes - full - (1 if rest else 0), 0))
        for number, trials in parts:
            if number:
                room = _with_trials(frame, block.room, trials) if trials else block.room
                out.append(Block(block.group, number, room))
        done += full * each + rest
    return out, done


def trials_on(frame: Frame, room: Room, at_most: int) -> int:
    """How many whole trials a node holds."""
    memory = sum(ask.count * ask.memory_bytes for ask in frame.asks)
    units = frame.empty.units
    for ask in frame.asks:
        units = added(units, ask.units, ask.count)

    def holds(count: int) -> bool:
        return frame.holds(
            room.memory_bytes + count * memory,
            room.flight_bytes + count * frame.home_bytes,
            added(room.units, units, count),
        )

    sharing = [ask for ask in frame.asks if ask.share]
    free = sum(SHARES - taken for taken in room.shares)
    bound = min(at_most, free // sum(ask.count * ask.share for ask in sharing)) if sharing else at_most
    found = largest(holds, bound)
    # Whatever is left of a GPU when its shares are in place is of no use to a share that is larger.
    return largest(lambda count: _shared(frame, room, count) is not None, found) if sharing else found


def _shared(frame: Frame, room: Room, trials: int) -> tuple[int, ...] | None:
    """What is taken of each GPU with so many more trials, the largest shares first; ``None`` when they find no place."""
    taken = room
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


def spread(
    blocks: list[Block], frames: tuple[Frame, ...], workload: Workload, *, home: int | None = None
) -> tuple[list[Block], dict[str, int]]:
    """One trial over several nodes, its driver in a group if one is named; what found no place is returned by role."""
    missing: dict[str, int] = {}
    blocks, house = _driven(blocks, frames, home)
    first = workload.needs[0].role
    if house is None:
        missing[first] = 1
    for index, count in _others(workload):
        blocks, left = _fill(blocks, frames, index, count, house)
        if left:
            role = workload.needs[index].role
            missing[role] = missing.get(role, 0) + left
    return blocks, missing


def _driven(blocks: list[Block], frames: tuple[Frame, ...], group: int | None) -> tuple[list[Block], Block | None]:
    """The driver on the first node (of a group) that has room for it and for all that is in flight."""
    for index, block in enumerate(blocks):
        if group is not None and block.group != group:
            continue
        frame = frames[block.group]
        laden = replace(block.room, flight_bytes=block.room.flight_bytes + frame.home_bytes, homes=block.room.homes + 1)
        if not most(frame, laden, frame.asks[0], 1, home=True):
            continue
        home = Block(block.group, 1, placed(laden, frame.asks[0], 1, home=True))
        rest = [Block(block.group, block.nodes - 1, block.room)] if block.nodes > 1 else []
        return [*blocks[:index], home, *rest, *blocks[index + 1 :]], home
    return blocks, None


def _fill(
    blocks: list[Block], frames: tuple[Frame, ...], index: int, count: int, home: Block | None
) -> tuple[list[Block], int]:
    """Bundles of one role, in the order of the nodes; what is left over is returned too."""
    out: list[Block] = []
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
                out.append(Block(block.group, number, room))
        count -= full * each + rest
    return out, count


def apart(
    blocks: list[Block], frames: tuple[Frame, ...], workload: Workload, *, home: int | None = None
) -> tuple[list[Block], dict[str, int]]:
    """One trial with each of its bundles on another node, those first that hold the fewest; what found no place by role."""
    missing: dict[str, int] = {}
    fewest = sorted(blocks, key=lambda block: sum(count for _, count in block.room.bundles))
    free, house = _driven(fewest, frames, home)
    taken = [] if house is None else [house]
    if house is None:
        missing[workload.needs[0].role] = 1
    free = [block for block in free if block is not house]
    for index, wanted in _others(workload):
        count, left = wanted, list[Block]()
        for block in free:
            ask = frames[block.group].asks[index]
            here = min(block.nodes, count) if most(frames[block.group], block.room, ask, 1, home=False) else 0
            if here:
                taken.append(Block(block.group, here, placed(block.room, ask, 1, home=False)))
            if block.nodes > here:
                left.append(Block(block.group, block.nodes - here, block.room))
            count -= here
        free = left
        if count:
            role = workload.needs[index].role
            missing[role] = missing.get(role, 0) + count
    return [*taken, *free], missing


def _others(workload: Workload) -> list[tuple[int, int]]:
    """All bundles but the driver, by their place among the needs: the largest first."""
    counts = [need.count - (index == 0) for index, need in enumerate(workload.needs)]
    order = sorted(
        range(len(counts)), key=lambda i: (workload.needs[i].vram_bytes, workload.needs[i].ram_bytes), reverse=True
    )
    return [(index, counts[index]) for index in order if counts[index]]


def settled(
    blocks: list[Block], frames: tuple[Frame, ...], exhausted: list[Block], order: tuple[int, ...] | None = None
) -> list[Block]:
    """Blocks that can still take something, neighbours in the same state as one; the others are put aside.

    With an order of groups, blocks that came out of it are sorted first.
    """
    if order is not None:
        blocks = sorted(
            blocks, key=lambda block: (order.index(block.group), block.room.bundles, block.room.flight_bytes)
        )
    out: list[Block] = []
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
