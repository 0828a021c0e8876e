"""The tape: allocations and releases of a rehearsed run, and the ledger of every phase's largest moment.

A framework adapter *plays* a run on the tape the way the real code would run: it allocates, copies and frees. The
tape keeps running totals per device, notes the largest moment of each phase, and turns what was live at that moment
into ledger entries. That is why a copy that lives for one line (a flattened rollout, ``obs.float()``) is counted when
it hurts and not when it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlmem.ledger import DEVICES, PHASES, Entry, Ledger, merge
from rlmem.quantity import Quantity


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


@dataclass(slots=True)
class _Moment:
    total: int
    blocks: tuple[tuple[Block, str], ...]


class Tape:
    """Plays allocations; :meth:`ledger` gives what was live at each phase's largest moment, per device."""

    def __init__(self, watch: tuple[str, ...] = ()) -> None:
        #: Component prefixes whose own largest moment is kept too, whatever else is live.
        self._watch = watch
        self._watched = dict.fromkeys(DEVICES, 0)
        self._watched_moments: dict[tuple[str, str], _Moment] = {}
        self._live: dict[Block, None] = {}
        self._totals = dict.fromkeys(DEVICES, 0)
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
        self._live[block] = None
        self._totals[device] += block.counted
        if component.startswith(self._watch):
            self._watched[device] += block.counted
        self._dirty.add(device)
        return block

    def free(self, *blocks: Block) -> None:
        """Give memory back. The moment before a release is where a maximum can be."""
        self._note()
        for block in blocks:
            del self._live[block]
            self._totals[block.device] -= block.counted
            if block.component.startswith(self._watch):
                self._watched[block.device] -= block.counted

    def fill(self, *blocks: Block) -> None:
        """A block's pages are written: a reserved one counts in full from here on."""
        for block in blocks:
            if block.residency == "reserved":
                self._totals[block.device] += block.amount.value
                self._dirty.add(block.device)
            block.residency = "filling"

    def settle(self, *blocks: Block) -> None:
        """A filled block is simply resident in the phases that follow."""
        for block in blocks:
            if block.residency == "filling":
                block.residency = "resident"

    def _note(self) -> None:
        if self._phase is None:
            return
        for device in self._dirty:
            key = (self._phase, device)
            best = self._moments.get(key)
            if best is None or self._totals[device] > best.total:
                held = tuple((block, block.residency) for block in self._live if block.device == device)
                self._moments[key] = _Moment(self._totals[device], held)
            most = self._watched_moments.get(key)
            if self._watch and (most is None or self._watched[device] > most.total):
                held = tuple(
                    (b, b.residency) for b in self._live if b.device == device and b.component.startswith(self._watch)
                )
                self._watched_moments[key] = _Moment(self._watched[device], held)
        self._dirty.clear()

    def watched_at_most(self, phase: str, device: str) -> list[Block]:
        """The watched blocks at the moment of a phase when they were largest together."""
        moment = self._watched_moments.get((phase, device))
        return [block for block, _ in moment.blocks] if moment else []

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
            for block, residency in self._moment(phase, device)
        )
        return Ledger(merge(entries))

    def _moment(self, phase: str, device: str) -> Iterable[tuple[Block, str]]:
        moment = self._moments.get((phase, device))
        return moment.blocks if moment else ()
