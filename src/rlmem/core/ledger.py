"""The ledger: who holds how many bytes, on which device, in which process, during which phase.

Predictions, measurements and live attributions are all ledgers; everything rlmem prints is a function of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from rlmem.core.quantity import Quantity, Term, total

#: In the order a run meets them. A peak belongs to one of these, never to the sum of a table.
PHASES = ("import", "build", "collect", "update", "evaluate", "checkpoint", "resume")
DEVICES = ("ram", "vram")
#: exact: array sizes; derived: arithmetic over layers and copies; measured: a constant with a provenance;
#: assumed: given by the user or guessed, and said so.
BASES = ("exact", "derived", "measured", "assumed")
#: reserved: allocated, no page touched yet, costs nothing now; filling: becomes resident during this phase and is
#: counted at its full size; resident: there; reclaimable: pages of a file, which the kernel takes back when it needs them.
RESIDENCIES = ("reserved", "filling", "resident", "reclaimable")
#: Those that are no part of a peak.
NOT_COUNTED = ("reserved", "reclaimable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a ledger."""

    component: str
    device: str
    process: str
    phase: str
    amount: Quantity
    basis: str
    residency: str = "resident"

    @property
    def nbytes(self) -> int:
        """Expected bytes."""
        return self.amount.value

    @property
    def formula(self) -> str:
        """How the bytes came about, with the numbers filled in."""
        return self.amount.formula

    @property
    def origin(self) -> tuple[Term, ...]:
        """Where every value in the formula came from."""
        return self.amount.terms

    @property
    def counts(self) -> bool:
        """Whether the entry takes memory in its phase that nobody else can have."""
        return self.residency not in NOT_COUNTED

    @property
    def group(self) -> str:
        """The first word of the component: ``replay`` of ``replay.observations[image]``."""
        return self.component.split(".", 1)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A loop that grows for as long as it runs, so that it has no peak."""

    bytes_each: int
    low_bytes: int
    high_bytes: int
    #: What adds them: ``update``; ``step`` or ``optimizer step`` where no more is seen.
    per: str
    #: How many of those were seen, what they added, who holds it, and how many are to come; ``None`` where not known.
    rounds: int
    rise_bytes: int
    owner: str | None = None
    left: float | None = None
    #: The owner's type, and whether its elements are tensors that keep the graphs they were computed by.
    kind: str = ""
    keeps_graphs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """What one device needs in one phase, against its limit."""

    device: str
    phase: str
    low_bytes: int
    expected_bytes: int
    high_bytes: int
    limit_bytes: int | None = None
    is_peak: bool = False
    #: Set where this is no peak but what was reached when the dry run ended.
    leak: Leak | None = None

    @property
    def spare_bytes(self) -> int | None:
        """Limit minus expected; ``None`` without a limit."""
        return None if self.limit_bytes is None else self.limit_bytes - self.expected_bytes


@dataclass(frozen=True, slots=True)
class Ledger:
    """Entries, with the sums people ask for.

    ``floors`` holds, per device and phase, what a phase needs at the very least: another moment than the one the
    entries show can have the larger lower bound.
    """

    entries: tuple[Entry, ...]
    floors: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def only(
        self,
        *,
        device: str | None = None,
        phase: str | None = None,
        process: str | None = None,
        component: str | None = None,
    ) -> Ledger:
        """The entries that match every criterion given; ``component`` matches a name or its first words."""

        def keep(entry: Entry) -> bool:
            return (
                (device is None or entry.device == device)
                and (phase is None or entry.phase == phase)
                and (process is None or entry.process == process)
                and (component is None or matches(entry.component, component))
            )

        return Ledger(tuple(entry for entry in self.entries if keep(entry)))

    def named_as(self, other: Ledger) -> Ledger:
        """Return the entries under the coarsest names that either ledger has for them, device by device.

        Where ``other`` says ``runtime``, what is ``runtime.imports`` here is ``runtime``.
        """
        names: dict[str, set[str]] = {}
        for entry in (*self.entries, *other.entries):
            names.setdefault(entry.device, set()).add(entry.component)

        def renamed(entry: Entry) -> Entry:
            covering = (name for name in names[entry.device] if matches(entry.component, name))
            return replace(entry, component=min(covering, key=len))

        return replace(self, entries=tuple(renamed(entry) for entry in self.entries))

    @property
    def nbytes(self) -> int:
        """Bytes taken by the entries that count; meaningful within one phase."""
        return sum(entry.nbytes for entry in self.entries if entry.counts)

    @property
    def phases(self) -> tuple[str, ...]:
        """The phases that occur, in the order of a run."""
        present = {entry.phase for entry in self.entries}
        return tuple(phase for phase in PHASES if phase in present)

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that occur, RAM first."""
        present = {entry.device for entry in self.entries}
        return tuple(device for device in DEVICES if device in present)

    @property
    def processes(self) -> tuple[str, ...]:
        """Process names in order of first appearance."""
        return tuple(dict.fromkeys(entry.process for entry in self.entries))

    @property
    def components(self) -> tuple[str, ...]:
        """Component names in order of first appearance."""
        return tuple(dict.fromkeys(entry.component for entry in self.entries))

    def peaks(self, limits: dict[str, int | None] | None = None) -> tuple[Peak, ...]:
        """One row per device and phase, the largest phase of each device first and marked."""
        rows: list[Peak] = []
        for device in self.devices:
            limit = (limits or {}).get(device)
            by_phase = [self._sum(device, phase, limit) for phase in self.phases]
            # Of equals the later one: an update that needs no more than its collection is still where runs end.
            top = max(reversed(by_phase), key=lambda peak: peak.expected_bytes)
            ordered = [top, *(peak for peak in by_phase if peak is not top)]
            rows += [replace(peak, is_peak=peak is top) for peak in ordered]
        return tuple(rows)

    def _sum(self, device: str, phase: str, limit: int | None) -> Peak:
        held = [e for e in self.entries if e.device == device and e.phase == phase and e.counts]
        expected = sum(e.nbytes for e in held)
        low = sum(e.amount.low for e in held)
        return Peak(
            device=device,
            phase=phase,
            low_bytes=min(max(low, self.floors.get((device, phase), 0)), expected),
            expected_bytes=expected,
            high_bytes=sum(e.amount.high for e in held),
            limit_bytes=limit,
        )


def matches(component: str, pattern: str) -> bool:
    """``replay`` and ``replay.observations`` both match ``replay.observations[image]``."""
    return component == pattern or component.startswith((f"{pattern}.", f"{pattern}["))


def merge(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries with the same place and residency added together, in order of first appearance."""
    groups: dict[tuple[str, str, str, str, str], list[Entry]] = {}
    for entry in entries:
        key = (entry.component, entry.device, entry.process, entry.phase, entry.residency)
        groups.setdefault(key, []).append(entry)
    return tuple(parts[0] if len(parts) == 1 else _added(parts) for parts in groups.values())


def _added(parts: list[Entry]) -> Entry:
    basis = max((part.basis for part in parts), key=BASES.index)
    return replace(parts[0], amount=total(part.amount for part in parts), basis=basis)
