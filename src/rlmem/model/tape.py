"""The tape: allocations and releases of a rehearsed run, and the ledger of every phase's largest moment.

A framework adapter *plays* a run on the tape the way the real code would run: it allocates, copies and frees. The
tape keeps running totals per device, notes the largest moment of each phase, and turns what was live at that moment
into ledger entries. That is why a copy that lives for one line (a flattened rollout, ``obs.float()``) is counted when
it hurts and not when it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlmem.core.ledger import DEVICES, PHASES, Entry, Ledger, merge
from rlmem.core.quantity import Quantity


@dataclass(slots=True, eq=False)
class Block:
    """One live allocation on the tape."""

    component: str
    amount: Quantity
    device: str
    process: str
    basis: str
    residency: str

    @property
    def counted(self) -> int:
        """Bytes it takes now."""
        return 0 if self.residency == "reserved" else self.amount.value

    @property
    def counted_low(self) -> int:
        """Bytes it takes now at the very least."""
        return 0 if self.residency == "reserved" else self.amount.low


@dataclass(slots=True)
class _Moment:
    total: int
    position: int


class Tape:
    """Plays allocations; :meth:`ledger` gives what was live at each phase's largest moment, per device."""

    def __init__(self, watch: tuple[str, ...] = ()) -> None:
        #: Component prefixes whose own largest moment is kept too, whatever else is live.
        self._watch = watch
        self._watched = dict.fromkeys(DEVICES, 0)
        self._watched_moments: dict[tuple[str, str], _Moment] = {}
        self._live: set[Block] = set()
        # What happened to which block: its residency from then on, None once it is free. A moment is a position in
        # this list; copying what is live at every new maximum would cost the square of a run with many networks.
        self._events: list[tuple[Block, str | None]] = []
        self._totals = dict.fromkeys(DEVICES, 0)
        self._lows = dict.fromkeys(DEVICES, 0)
        self._floors: dict[tuple[str, str], int] = {}
        self._phase: str | None = None
        self._moments: dict[tuple[str, str], _Moment] = {}
        self._dirty: set[str] = set()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Everything inside happens in this phase; what was live before is live at its start."""
        if name not in PHASES:
            raise ValueError(f"unknown phase {name!r}")
        self._phase = name
        self._dirty.update(DEVICES)
        try:
            yield
            self._note()
        finally:
            self._phase = None

    def alloc(
        self,
        component: str,
        amount: Quantity,
        *,
        device: str = "ram",
        process: str = "main",
        basis: str = "derived",
        residency: str = "resident",
    ) -> Block:
        """Take memory; the block is the handle to give it back."""
        block = Block(component, amount, device, process, basis, residency)
        self._live.add(block)
        self._events.append((block, residency))
        self._totals[device] += block.counted
        self._lows[device] += block.counted_low
        if component.startswith(self._watch):
            self._watched[device] += block.counted
        self._dirty.add(device)
        return block

    def free(self, *blocks: Block) -> None:
        """Give memory back. The moment before a release is where a maximum can be."""
        self._note()
        for block in blocks:
            self._live.remove(block)
            self._events.append((block, None))
            self._totals[block.device] -= block.counted
            self._lows[block.device] -= block.counted_low
            if block.component.startswith(self._watch):
                self._watched[block.device] -= block.counted

    def fill(self, *blocks: Block) -> None:
        """A block's pages are written: a reserved one counts in full from here on."""
        for block in blocks:
            if block.residency == "reserved":
                self._totals[block.device] += block.amount.value
                self._lows[block.device] += block.amount.low
                self._dirty.add(block.device)
            block.residency = "filling"
            self._events.append((block, "filling"))

    def settle(self, *blocks: Block) -> None:
        """A filled block is simply resident in the phases that follow."""
        for block in blocks:
            if block.residency == "filling":
                block.residency = "resident"
                self._events.append((block, "resident"))

    def _note(self) -> None:
        if self._phase is None:
            return
        for device in self._dirty:
            key = (self._phase, device)
            best = self._moments.get(key)
            if best is None or self._totals[device] > best.total:
                self._moments[key] = _Moment(self._totals[device], len(self._events))
            self._floors[device, self._phase] = max(self._floors.get((device, self._phase), 0), self._lows[device])
            most = self._watched_moments.get(key)
            if self._watch and (most is None or self._watched[device] > most.total):
                self._watched_moments[key] = _Moment(self._watched[device], len(self._events))
        self._dirty.clear()

    def watched_at_most(self, phase: str, device: str) -> list[Block]:
        """The watched blocks at the moment of a phase when they were largest together."""
        held = self._held(self._watched_moments.get((phase, device)), device)
        return [block for block, _ in held if block.component.startswith(self._watch)]

    def ledger(self) -> Ledger:
        """Entries for every phase and device that was touched, in phase order."""
        entries = (
            Entry(
                component=block.component,
                device=device,
                process=block.process,
                phase=phase,
                amount=block.amount,
                basis=block.basis,
                residency=residency,
            )
            for phase in PHASES
            for device in DEVICES
            for block, residency in self._held(self._moments.get((phase, device)), device)
        )
        return Ledger(merge(entries), self._floors)

    def _held(self, moment: _Moment | None, device: str) -> list[tuple[Block, str]]:
        """What a device held at a moment, with its residency then: the events up to there, replayed."""
        held: dict[Block, str] = {}
        for block, residency in self._events[: moment.position if moment else 0]:
            if residency is None:
                del held[block]
            else:
                held[block] = residency
        return [(block, residency) for block, residency in held.items() if block.device == device]
