"""What a dry run saw, as a ledger: readings by phase, exact arrays, and what is reserved and not yet resident.

Expected bytes of a phase = the most the process tree held in it during the dry run
                          + what its big arrays reserve and do not hold yet
                          + what the real sizes add where the dry run stopped short of them.
Named parts (arrays, parameters, worker processes) are taken out of that sum; the rest is shown as what it is: measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from rlmem.agent.protocol import (
    ArrayRow,
    BufferArray,
    ContainerRow,
    Facts,
    FileRow,
    OtherProcess,
    Reading,
    RehearsalFacts,
)
from rlmem.core.ledger import Entry, Leak, Ledger, merge
from rlmem.core.quantity import Quantity
from rlmem.trace.growth import filling
from rlmem.trace.stores import kept
from rlmem.units import MIB

#: The same command measured twice differs by this much: address layout, timing, which pages of a library are touched. What
#: the agent takes for itself is known no better (a loop of NumPy alone, on two idle cores, was read 4.8 MiB too high).
NOISE_BYTES = 6 * MIB
NOISE_SHARE = 0.01
#: After the few updates of a dry run the heap still grows a little; it never shrinks. Large networks leave time for few.
LATER_SHARE, UNSETTLED_SHARE = 0.03, 0.06
#: Gradient steps after which it has all but stopped.
SETTLED = 40
LATER_BYTES = 6 * MIB
#: Code and buffers that a first backward pass and optimizer step touch (the closed form's warm-up).
FIRST_UPDATE = 12 * MIB
#: What an update is allowed that was not seen and whose stores are small.
UNSEEN = 200 * MIB
#: How sure an extension beyond what was run is.
EXTENDED_LOW, EXTENDED_HIGH = 0.85, 1.2

#: How sure the part of an array is that a run writes, from the part the dry run wrote.
WRITTEN_LOW, WRITTEN_HIGH = 0.9, 1.1

#: Blocks of the allocator around small objects, as a share of the objects.
BLOCKS_LOW, BLOCKS_HIGH = 0.9, 1.15

_GROUPS = {"replay_buffer": "replay", "rollout_buffer": "rollout"}
MEASURED = "measured in the dry run"
#: What :mod:`rlmem.trace.extend` calls stores and their copies.
EXTENDED_STORES = "extended.stores"
WORKING_SET = "runtime.working-set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What the real sizes add to a phase beyond what was run, by component."""

    phase: str
    component: str
    amount: Quantity


class Held(NamedTuple):
    """Something large with a size of its own: its bytes when the run is under way, and those that were there at the end.

    ``whole`` says that all of it is written as soon as it is made, ``room`` what it would hold in a longer run.
    """

    component: str
    amount: Quantity
    resident: int
    whole: bool = False
    basis: str = "exact"
    room: Quantity | None = None


class TracedLedger:
    """Builds the ledger from the agent's facts."""

    def __init__(
        self,
        facts: Facts,
        growth: tuple[Growth, ...] = (),
        *,
        written: float | None = None,
        stretch: Fraction = Fraction(1),
        leak: Leak | None = None,
        limit_bytes: int | None = None,
    ) -> None:
        self.facts, self.growth, self.leak, self.limit_bytes = facts, growth, leak, limit_bytes
        #: The share of a replay buffer's rows that the run comes to; None where it comes to all.
        self.written = written
        #: How many times as many rows a rollout has as in the dry run.
        self.stretch = stretch
        self.rehearsal: RehearsalFacts = facts.get("rehearsal") or {}
        #: A larger size may have been begun and not ended: then the phases are those up to the last that did.
        self.phases: Mapping[str, Reading] = self.rehearsal.get("phases") or facts["phases"]

    def ledger(self) -> Ledger:
        """Entries for every phase the dry run went through."""
        entries: list[Entry] = []
        for phase in ("import", "build", "collect", "update"):
            if phase in self.phases:
                entries += self._phase(phase, phase)
        if "update" not in self.phases and "final" in self.phases:
            learns = self.facts.get("met") == "update" or self.facts.get("learners")
            name = "update" if learns else "collect"
            entries = [entry for entry in entries if entry.phase != "collect"]
            entries += self._phase("final", name)
            is_open = self.facts.get("met") in ("time", "update") and not self.facts.get("learners")
            if is_open and {"torch", "jax"} & set(self.facts.get("versions", {})):
                entries.append(self._unseen(name))
        return Ledger(merge(entries))

    def _unseen(self, phase: str) -> Entry:
        """An update that did not come, or not to its end.

        Of one that did not begin, gradients, Adam's two moments and the code it loads are expected; the upper bound allows
        for another copy of the stores.
        """
        stored = sum(array.amount.value for array in self._arrays())
        pending = int(self.facts.get("pending_bytes", 0))
        expected = 3 * pending + FIRST_UPDATE if pending else 0
        amount = Quantity.of(
            expected,
            "an update not seen",
            f"3 × {pending:,} B of parameters and {FIRST_UPDATE:,} B, at most another copy of the stores more",
            low=0,
            high=expected + max(UNSEEN, stored),
        )
        return _entry("unseen.update", phase, amount, "assumed")

    def _phase(self, phase: str, name: str) -> Iterator[Entry]:
        """One reading as a phase of the run; the last one stands for the phase it was taken in."""
        reading = self.phases[phase]
        others = [row for row in reading["others"] if row["role"] != "tracker"]
        workers = sum(row["bytes"] for row in reading["others"])
        peak = reading["peak"]
        if phase == "collect" and "update" in self.phases:  # from the second round on, what an update leaves is there
            peak = max(peak, self.phases["update"]["tree"])
        if phase == "final":  # of children that have ended since, only the runner knows
            peak = max(peak, self.facts.get("tree_peak", 0))
        main = max(0, peak - workers - self.facts.get("overhead_bytes", 0))
        filled = phase in ("collect", "update", "final")
        arrays = [self._reached(array) for array in self._arrays()] if phase != "import" else []
        there = [array for array in arrays if filled or array.whole]
        held = sum(array.resident for array in there)
        named: list[Entry] = []
        for array in there:
            state = "filling" if name == "collect" and not array.whole else "resident"
            named.append(_entry(array.component, name, array.amount, array.basis, residency=state))
        for array in arrays:
            if array.room is not None and array.room.value > array.amount.value:
                more = array.room.value - array.amount.value
                beyond = Quantity.of(more, f"{array.component} this run never writes", array.room.formula)
                named.append(_entry(array.component, name, beyond, array.basis, residency="reserved"))
            reserved = array.amount.value - array.resident
            if array not in there and reserved > 0:
                later = Quantity.of(reserved, f"{array.component} not yet written", array.amount.formula)
                named.append(_entry(array.component, name, later, array.basis, residency="reserved"))
        if phase != "import":
            named += self._learner(name)
            named += [
                _entry(f"files.{file_name(row)}", name, _file(row), "exact", residency="reclaimable")
                for row in self.facts.get("files", ())
                if not row["in_ram"]
            ]
        components = {array.component for array in arrays}
        taken = sum(entry.nbytes for entry in named if entry.counts and entry.component not in components)
        imports = min(self._import_bytes(), max(0, main - held - taken))
        rest = max(0, main - held - taken - imports)
        if self.leak is not None and name in ("collect", "update"):
            leaked = min(self.leak.rise_bytes, rest)
            yield _leaked(self.leak, leaked, name, self.limit_bytes)
            rest -= leaked
        settle = self._later_share() if name in ("collect", "update") else 0.0
        # The range of the reading belongs to what is left of it; where that is too little to vary so much, to the libraries.
        wide, exact = {"whole": main, "settle": settle}, {"noise": False}
        alone, other = (wide, exact) if rest < noise_of(main) else (exact, wide)
        yield _entry(
            "runtime.imports", name, _measured(imports, "libraries as imported", MEASURED, **alone), "measured"
        )
        yield from named
        if rest:
            what = {
                "import": "interpreter and libraries",
                "build": "environments, model objects, libraries loaded by them",
            }.get(name, "environments, batches, activations, heap")
            origin = f"peak of the process in {name}, without the parts named; {MEASURED}"
            yield _entry(WORKING_SET, name, _measured(rest, what, origin, **other), "measured")
        yield from self._workers(others, name)
        for growth in self.growth:
            if growth.phase == name and growth.amount.high:
                yield from self._grown(growth, arrays)

    def _grown(self, growth: Growth, arrays: list[Held]) -> Iterator[Entry]:
        """What real sizes add beyond the arrays that are shown at their real sizes already: copies of them."""
        shown = sum(array.amount.value for array in arrays if array.component.startswith("rollout."))
        shown -= round(shown / self.stretch)
        if growth.component != EXTENDED_STORES or not shown:
            yield _entry(growth.component, growth.phase, growth.amount, "derived")
            return
        left = growth.amount.value - shown
        if left > NOISE_SHARE * shown:
            how = f"{growth.amount.formula}, without the arrays themselves"
            low, high = round(EXTENDED_LOW * left), round(EXTENDED_HIGH * left)
            amount = Quantity.of(left, "copies at the real size", how, low=low, high=high)
            yield _entry("extended.copies", growth.phase, amount, "derived")

    def _reached(self, array: Held) -> Held:
        """What a run that ends before its replay buffer is full writes of it; at least what the dry run wrote."""
        if self.written is None or not array.component.startswith("replay."):
            return array
        whole = array.amount
        low, value, high = (
            max(round(size * self.written), min(array.resident, size)) for size in (whole.low, whole.value, whole.high)
        )
        how = f"{100 * self.written:.3g} % of the rows of {whole.formula}"
        amount = Quantity.of(value, f"{array.component} that this run writes", how, low=low, high=high)
        return array._replace(amount=amount, room=whole)

    def _workers(self, rows: list[OtherProcess], phase: str) -> Iterator[Entry]:
        """Other processes of the tree; those that were not started add what each has for itself alone."""
        reserved: dict[int, int] = {}
        for row in rows:
            arrays = [array for array in self.facts.get("worker_arrays", ()) if array["pid"] == row["pid"]]
            resident = min(row["bytes"], sum(array["resident"] for array in arrays))
            amount = _measured(row["bytes"] - resident, f"{row['role']} process", f"PSS, {MEASURED}")
            yield _entry(f"workers.{row['role']}", phase, amount, "measured", process="workers")
            for array in arrays:
                held = self._named(array, "workers.arrays")
                state = "resident" if held.whole or phase in ("collect", "update") else "reserved"
                yield _entry(held.component, phase, held.amount, held.basis, process="workers", residency=state)
                if state == "resident":
                    reserved[row["pid"]] = reserved.get(row["pid"], 0) + held.amount.value - held.resident
        started = self.facts.get("workers_started")
        private = [row["private"] + reserved.get(row["pid"], 0) for row in rows if row["role"] == "worker"]
        if not started or not private:
            return
        count = Quantity.of(
            self.facts["workers_asked"] - started, "workers not started in the dry run", "asked − started"
        )
        each = sum(private) // len(private)
        one = Quantity.of(each, "private bytes of one", MEASURED, low=round(each * 0.97), high=round(each * 1.04))
        yield _entry("workers.worker", phase, count * one, "measured", process="workers")

    def _later_share(self) -> float:
        """How much the heap may still grow; the updates of a rollout are many, those of a replay buffer are counted."""
        few = (
            "replay_buffer" in self.rehearsal.get("buffers", {})
            and self.rehearsal["reached"].get("updates", 0) < SETTLED
        )
        return UNSETTLED_SHARE if few else LATER_SHARE

    def _import_bytes(self) -> int:
        reading = self.phases.get("import") or self.phases.get("build") or {"tree": 0}
        return max(0, int(reading["tree"]) - int(self.facts.get("overhead_bytes", 0)))

    def _arrays(self) -> Iterator[Held]:
        """Big arrays with what of them was resident at the end; each once, by the name of their owner if known."""
        seen: set[int] = set()
        for buffer, rows in self.rehearsal.get("buffers", {}).items():
            for array in rows:
                seen.add(array["address"])
                amount = self._stretched(buffer, _array(array, f"{buffer}.{array['name']}"))
                yield Held(f"{_GROUPS[buffer]}.{array['name']}", amount, array["resident"])
        for buffer, store in self.rehearsal.get("stores", {}).items():
            for name, amount, resident in kept(store, self.facts.get("sized") or {}):
                yield Held(f"{_GROUPS[buffer]}.{name}", self._stretched(buffer, amount), resident)
        if self.rehearsal.get("buffers") is not None:
            seen.update(self.rehearsal.get("held", ()))
        for store in self.facts.get("loop_stores", ()):
            for name, amount, resident in kept(store, {}):
                yield Held(f"replay.{name}" if store["paired"] else f"rollout.{name}", amount, resident)
        containers = list(self._containers())
        for container, _ in containers:
            seen.update(container.get("arrays", ()))
        files = [file for file in self.facts.get("files", ()) if file["in_ram"]]
        for file in files:
            yield Held(f"arrays.{file_name(file)}", _file(file), file["resident"])
        for row in self.facts.get("arrays", ()):
            if row["address"] in seen or any(file["address"] <= row["address"] < file["end"] for file in files):
                continue
            yield self._named(row, "arrays")
        for container, length in containers:
            yield _container(container, length)

    def _stretched(self, buffer: str, amount: Quantity) -> Quantity:
        """A rollout's array at the run's number of rows; that of a replay buffer had it in the dry run."""
        if buffer != "rollout_buffer" or self.stretch == 1:
            return amount
        low, value, high = (round(size * self.stretch) for size in (amount.low, amount.value, amount.high))
        how = f"{amount.origin or amount.formula} with {float(self.stretch):.4g} times as many rows in the run"
        return Quantity.of(value, amount.name, how, low=low, high=high)

    def _containers(self) -> Iterator[tuple[ContainerRow, int]]:
        """Bounded containers, each once, and how many elements each comes to."""
        growing = {row.get("id", row["name"]): (row, length) for row, length in filling(self.facts, self.leak)}
        for row in self.facts.get("containers", ()):
            yield row, growing.pop(row.get("id"), (row, row["capacity"] or 0))[1]
        yield from (found for found in growing.values() if found[0]["kind"] != "deque")

    def _named(self, row: ArrayRow, group: str) -> Held:
        """An array by the path that leads to it, as ``rlmem explain`` names it; one without a path by the line that made it."""
        where = row["where"].rsplit("/", 1)[-1]
        name, amount = f"{group}.{row.get('path') or where}", _array(row, f"{row['made_by']} at {where}")
        if is_partly_written(row):
            part = _partly(row, amount, None if self.facts.get("ended") else self.facts["steps"])
            return Held(name, part, row["resident"], basis="derived", room=amount)
        if is_untouched(row, self.facts):
            amount = Quantity.of(amount.value, amount.name, f"{amount.origin}, not written so far", low=0)
        return Held(name, amount, row["resident"], whole=bool(row.get("whole")))

    def _learner(self, phase: str) -> Iterator[Entry]:
        networks = self.rehearsal.get("networks") or {}
        for name, nbytes in networks.items():
            amount = Quantity.of(nbytes, f"parameters of {name}", "read from the live model")
            yield _entry(f"learner.parameters[{name}]", phase, amount, "exact")
        if phase in ("collect", "update"):
            for name, nbytes in (self.rehearsal.get("learner") or {}).items():
                if nbytes:
                    amount = Quantity.of(nbytes, name, "read from the live optimizers after an update")
                    yield _entry(f"learner.{name}", phase, amount, "exact")


def _container(row: ContainerRow, length: int) -> Held:
    """A container of objects when it has so many elements; what these share is counted where it was measured."""
    nbytes = row["bytes_each"]
    each = Quantity.of(
        nbytes,
        "bytes an element adds",
        f"{MEASURED}, beyond what elements share",
        low=round(BLOCKS_LOW * row.get("least_each", nbytes)),
        high=round(BLOCKS_HIGH * row.get("most_each", nbytes)),
    )
    now = f"{row['length']:,} elements of a {row['kind']} now"
    room = Quantity.of(row["capacity"] or length, "bound" if row["capacity"] else "elements at the end", now) * each
    is_short = length < (row["capacity"] or 0)
    amount = Quantity.of(length, "elements at the end of the run", now) * each if is_short else room
    name = row.get("path") or row.get("name") or row["kind"]
    return Held(f"containers.{name}", amount, nbytes * row["length"], basis="derived", room=room)


def is_untouched(row: ArrayRow, facts: Facts) -> bool:
    """Whether nothing was written to an array in many updates; the run may never, or at the end of its first episode."""
    loop = facts.get("loop")
    cycles = loop["cycles"] if loop else 0
    return not row["resident"] and not row.get("whole") and cycles >= SETTLED


def file_name(row: FileRow) -> str:
    """A mapped file by the path of the array over it, else by its own name."""
    return str(row.get("path") or row["file"].removesuffix(" (deleted)").rsplit("/", 1)[-1])


def _file(row: FileRow) -> Quantity:
    return Quantity.of(
        row["nbytes"], "mapped bytes", f"the file {row['file']}, {row['resident']:,} B of it resident now"
    )


def is_partly_written(row: ArrayRow) -> bool:
    """Whether the run ends before it has written all of an array."""
    written = row.get("written")
    return written is not None and written < row["nbytes"]


def _partly(row: ArrayRow, whole: Quantity, steps: int | None) -> Quantity:
    """What a run of so many steps writes of an array, at the rate the dry run did; ``None``: what it wrote, being over."""
    written = row["written"] or 0
    if steps is None:
        return Quantity.of(written, whole.name, f"written by the run; room for {whole.formula}")
    most = min(row["nbytes"], round(written * WRITTEN_HIGH))
    least = max(row["resident"], round(written * WRITTEN_LOW))
    formula = f"written in {steps:,} environment steps, as evenly as in the dry run; room for {whole.formula}"
    return Quantity.of(written, whole.name, formula, low=min(least, written), high=most)


def _array(row: ArrayRow | BufferArray, name: str) -> Quantity:
    shape = " × ".join(str(side) for side in row["shape"]) or "1"
    return Quantity.of(row["nbytes"], name, f"{shape} × {row['dtype']}, a live array")


def _leaked(leak: Leak, nbytes: int, phase: str, limit_bytes: int | None) -> Entry:
    """What a leak had added when the dry run ended; nothing bounds it but the limit."""
    amount = Quantity.of(
        nbytes,
        "what updates left behind",
        f"{leak.bytes_each:,} B × each {leak.per}, {MEASURED}",
        low=0,
        high=max(10 * nbytes, limit_bytes or 0),
    )
    return _entry(f"leak.{leak.owner or 'heap'}", phase, amount, "measured")


def noise_of(nbytes: int) -> int:
    """By how much a reading differs from the same one of another run."""
    return round(NOISE_SHARE * nbytes) + NOISE_BYTES


def _measured(
    nbytes: int, name: str, origin: str, *, whole: int | None = None, settle: float = 0.0, noise: bool = True
) -> Quantity:
    """A measured amount with the range of the whole reading it belongs to."""
    spread = (noise_of(whole) if whole else round(NOISE_SHARE * nbytes)) if noise else 0
    later = round(LATER_BYTES + settle * (whole or nbytes)) if settle else 0
    return Quantity.of(nbytes, name, origin, low=max(0, nbytes - spread), high=nbytes + spread + later)


def _entry(
    component: str, phase: str, amount: Quantity, basis: str, *, process: str = "main", residency: str = "resident"
) -> Entry:
    if basis == "exact" and not amount.low == amount.value == amount.high:
        basis = "derived"
    return Entry(
        component=component,
        device="ram",
        process=process,
        phase=phase,
        amount=amount,
        basis=basis,
        residency=residency,
    )
