"""What a node can hold, as whole numbers: memory in bytes, cores and GPUs in the ten thousandths that Ray counts in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.workload import Need, Workload
from rlmem.core.resources import CUSTOM
from rlmem.units import MIB

#: Ray's smallest share of a CPU or GPU is 0.0001.
SHARES = 10_000
#: Ray's memory monitor ends workers when this share of a node's memory is in use (RAY_memory_usage_threshold, Ray 2.60).
KILL_SHARE = 0.95
#: A store that is fuller than this begins to spill to disk (object_spilling_threshold, Ray 2.60).
SPILL_SHARE = 0.8
#: Ray starts no smaller object store (OBJECT_STORE_MINIMUM_MEMORY_BYTES, Ray 2.60).
SMALLEST_STORE = 75 * MIB
#: What is left free of everything, unless asked otherwise.
MARGIN = 0.10
#: How Ray begins the custom resource that each node has for itself; which node has which is not looked at.
ADDRESS = "node:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On which terms bundles are placed."""

    #: Added to every bundle, to what a node pays once and to what is in flight.
    margin: float = MARGIN
    #: Share of a node's RAM that may be in use.
    kill_share: float = KILL_SHARE

    def with_margin(self, nbytes: int) -> int:
        """Bytes with the margin on top."""
        return nbytes + ceil(nbytes * self.margin)

    def usable_bytes(self, group: NodeGroup) -> int:
        """RAM of a node that may be in use."""
        return int(group.ram_bytes * self.kill_share)

    def store_bytes(self, flight_bytes: int) -> int:
        """The object store that holds so much in flight without spilling."""
        return max(SMALLEST_STORE, ceil(self.with_margin(flight_bytes) / SPILL_SHARE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one bundle of a role asks of a node of one group, margin included."""

    role: str
    count: int
    memory_bytes: int
    #: Cores, then custom resources in the order of the frame, in ten thousandths of one.
    units: tuple[int, ...]
    #: In ten thousandths of one GPU; a share never spans GPUs, so over ``SHARES`` it fits none.
    share: int
    #: With the margin, where a GPU is shared out by bytes.
    vram_bytes: int
    #: Put into the store of a node where the driver is not.
    flight_bytes: int


@dataclass(frozen=True, slots=True)
class Frame:
    """The empty node of a group, and what a workload makes of it."""

    group: NodeGroup
    terms: Terms
    #: Paid once by a node that holds anything.
    node_bytes: int
    #: Whether objects pass through a store at all.
    stores: bool
    asks: tuple[Ask, ...]
    #: What is counted out by Ray, and what a node has of it: cores and custom resources; ``None`` limits nothing.
    units: tuple[tuple[str, int | None], ...]
    #: In flight where the driver is, for every trial.
    home_bytes: int

    @property
    def empty(self) -> Room:
        """A node of which nothing is taken."""
        return Room(units=(0,) * len(self.units), shares=(0,) * self.group.gpus)

    def ram_bytes(self, room: Room) -> int:
        """All that a node has in use."""
        return room.memory_bytes + (self.node_bytes if room.bundles else 0) + self.store_bytes(room)

    def store_bytes(self, room: Room) -> int:
        """The object store of a node: as it runs, or as large as it must be."""
        return self._store(room.flight_bytes) if room.bundles else self.group.store_bytes or 0

    def _store(self, flight_bytes: int) -> int:
        if self.group.store_bytes is not None:
            return self.group.store_bytes
        return self.terms.store_bytes(flight_bytes) if self.stores else 0

    def over(self, memory_bytes: int, flight_bytes: int, units: tuple[int, ...]) -> dict[str, int]:
        """By how much that would overcommit a node; 0 and less is room. Bytes, and ten thousandths of a core."""
        ram = memory_bytes + self.node_bytes + self._store(flight_bytes)
        over = {"ram": ram - self.terms.usable_bytes(self.group)}
        if self.group.store_bytes is not None and self.stores:
            over["store"] = self.terms.store_bytes(flight_bytes) - self.group.store_bytes
        if self.group.memory_bytes is not None:
            over["memory"] = memory_bytes - self.group.memory_bytes
        over |= {name: asked - has for (name, has), asked in zip(self.units, units, strict=True) if has is not None}
        return over

    def holds(self, memory_bytes: int, flight_bytes: int, units: tuple[int, ...]) -> bool:
        """Whether a node has all of that."""
        return max(self.over(memory_bytes, flight_bytes, units).values()) <= 0


@dataclass(frozen=True, slots=True)
class Room:
    """What a node holds."""

    #: Taken of cores and custom resources.
    units: tuple[int, ...]
    #: Taken of each GPU.
    shares: tuple[int, ...]
    memory_bytes: int = 0
    flight_bytes: int = 0
    #: Bundles by role, in the workload's order.
    bundles: tuple[tuple[str, int], ...] = ()
    #: Trials whose driver is here.
    homes: int = 0


def frame_of(group: NodeGroup, workload: Workload, terms: Terms) -> Frame:
    """A group's nodes, as a workload sees them."""
    others = sum(need.count for need in workload.needs) - 1
    # Whoever is not the driver puts an equal part of what is in flight into the store of its own node.
    flight = -(-workload.store_bytes // others) if others else 0
    customs = tuple(sorted({name for need in workload.needs for name, _ in need.resources}))
    asks = tuple(_ask(need, group, terms, flight, customs) for need in workload.needs)
    return Frame(
        group=group,
        terms=terms,
        node_bytes=terms.with_margin(workload.node_bytes),
        stores=bool(workload.store_bytes or workload.node_bytes),
        asks=asks,
        units=_units(group, customs),
        home_bytes=workload.store_bytes,
    )


def _units(group: NodeGroup, customs: tuple[str, ...]) -> tuple[tuple[str, int | None], ...]:
    """What a node has to count out: cores, and of every custom resource; none of one that it was not started with."""
    found: list[tuple[str, int | None]] = [("cpus", None if group.cpus is None else int(group.cpus * SHARES))]
    known = None if group.resources is None else dict(group.resources)
    for name in customs:
        limits = known is not None and not name.startswith(ADDRESS)
        found.append((CUSTOM + name, int((known or {}).get(name, 0) * SHARES) if limits else None))
    return tuple(found)


def _ask(need: Need, group: NodeGroup, terms: Terms, flight: int, customs: tuple[str, ...]) -> Ask:
    vram = terms.with_margin(need.vram_bytes)
    share = gpu_share(vram, group)
    if 0 < share <= SHARES:  # beside others a cache counts; alone on a GPU it gives way
        share = SHARES if need.whole_gpu else min(SHARES, gpu_share(vram + need.cache_bytes, group))
    if need.least_gpu and share <= SHARES:
        share = max(share, min(SHARES, ceil(need.least_gpu * SHARES))) if group.gpus else SHARES + 1
    memory = terms.with_margin(need.ram_bytes)
    return Ask(
        role=need.role,
        count=need.count,
        memory_bytes=memory + vram if group.unified else memory,
        units=tuple(ceil(amount * SHARES) for amount in (need.cpus, *_amounts(need, customs))),
        share=share,
        vram_bytes=0 if group.unified else vram,
        flight_bytes=flight,
    )


def _amounts(need: Need, customs: tuple[str, ...]) -> tuple[float, ...]:
    asked = dict(need.resources)
    return tuple(asked.get(name, 0.0) for name in customs)


def gpu_share(vram_bytes: int, group: NodeGroup) -> int:
    """Bytes as ten thousandths of one GPU, rounded up; all of a GPU whose memory nobody knows, too much of none."""
    if not vram_bytes:
        return 0
    whole = group.ram_bytes if group.unified else group.vram_bytes
    if not group.gpus:
        return SHARES + 1
    return SHARES if whole is None else -(-vram_bytes * SHARES // whole)


def room_for(free: tuple[int, ...], share: int) -> int:
    """How many shares GPUs with so much taken still hold, none of them spanning two."""
    return sum((SHARES - taken) // share for taken in free)


def placed(room: Room, ask: Ask, count: int, *, home: bool) -> Room:
    """A room with so many more bundles in it, which it is known to hold; at home nothing more is in flight for them."""
    shares, left = list(room.shares), count if ask.share else 0
    for index, taken in enumerate(shares):
        here = min(left, (SHARES - taken) // ask.share) if left else 0
        shares[index] += here * ask.share
        left -= here
    assert not left, "a share of a GPU has no place"
    return Room(
        memory_bytes=room.memory_bytes + count * ask.memory_bytes,
        flight_bytes=room.flight_bytes + (0 if home else count * ask.flight_bytes),
        units=added(room.units, ask.units, count),
        shares=tuple(shares),
        bundles=tuple(sorted({**dict(room.bundles), ask.role: dict(room.bundles).get(ask.role, 0) + count}.items())),
        homes=room.homes,
    )


def most(frame: Frame, room: Room, ask: Ask, at_most: int, *, home: bool) -> int:
    """How many more bundles a node holds."""
    if ask.share:
        at_most = min(at_most, room_for(room.shares, ask.share))
    flight = 0 if home else ask.flight_bytes

    def holds(count: int) -> bool:
        return frame.holds(
            room.memory_bytes + count * ask.memory_bytes,
            room.flight_bytes + count * flight,
            added(room.units, ask.units, count),
        )

    return largest(holds, at_most)


def added(taken: tuple[int, ...], more: tuple[int, ...], count: int = 1) -> tuple[int, ...]:
    """Units with so many times more of them taken."""
    return tuple(one + count * other for one, other in zip(taken, more, strict=True))


def largest(holds: Callable[[int], bool], at_most: int) -> int:
    """The largest number up to ``at_most`` that holds, given that all smaller ones do; 0 when not even 1 does."""
    low, high = 0, at_most + 1
    if at_most > 0 and holds(at_most):
        return at_most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
