"""One measured process: what was asked, how it ended, what it held."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from rlmem.core.components import process_of
from rlmem.core.ledger import PHASES, Entry, Ledger, Peak
from rlmem.core.memory_classes import UNKNOWN
from rlmem.core.quantity import Quantity
from rlmem.units import format_count

#: How a measured process can end; every one of them is a row of the table.
STATUSES = ("ok", "failed", "oom", "timeout", "killed", "interrupted")
if TYPE_CHECKING:  # to the type checker it is text; a reader of JSON takes only the words of the table
    Status: TypeAlias = str
else:
    Status = Literal[STATUSES]

Values = Mapping[str, int | str]
#: Components of a plan that only the allocator and the driver can tell.
CACHE, CONTEXT = "runtime.allocator-cache", "runtime.cuda-context"


def axes_text(values: Values) -> str:
    """Return the values of a point as one text, by which points are compared."""
    return json.dumps(dict(values), sort_keys=True)


def value_text(value: int | str) -> str:
    """Return a value of an axis as people say it.

    >>> value_text(400_000)
    '400,000'
    """
    return format_count(value) if isinstance(value, int) else value


def values_text(values: Values) -> str:
    """Return the values of a point as people say them.

    >>> values_text({"agents": 1024, "device": "cpu"})
    'agents=1,024, device=cpu'
    """
    return ", ".join(f"{name}={value_text(value)}" for name, value in values.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedPeak:
    """What a plan says of the peak of RAM, in bytes."""

    low: int
    expected: int
    high: int

    @classmethod
    def of(cls, peak: Peak) -> PredictedPeak:
        """Return the prediction that a peak of a plan is."""
        return cls(low=peak.low_bytes, expected=peak.expected_bytes, high=peak.high_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointProcess:
    """One process of a measured tree; sizes are bytes."""

    pid: int | None = None
    role: str = "other"
    #: Its largest resident size, shared pages included (VmHWM).
    hwm_bytes: int | None = None
    #: Its share of the tree's memory when that was largest.
    bytes_at_peak: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured process; sizes are bytes, and an unknown one is ``None`` or left out, never 0."""

    #: Which repeat of its values it is.
    repeat: int = 0
    #: The axis values of this point.
    values: Values
    status: Status
    #: Peak of the process tree, each shared page counted once (PSS).
    peak_bytes: int | None
    #: Phase to the tree's peak in that phase.
    phases: Mapping[str, int] = field(default_factory=dict)
    #: Measured bytes of named arrays, such as ``replay.observations``.
    components: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[PointProcess, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    wall_s: float = 0.0
    #: One line: why it failed, or what is special about it.
    note: str = ""
    #: What the plan of this very point expects.
    predicted: PredictedPeak | None = None
    #: The plan's bytes of the same components, at its peak.
    predicted_components: Mapping[str, int] = field(default_factory=dict)
    #: Peak of the cgroup, where the process had one of its own.
    cgroup_bytes: int | None = None
    #: On a GPU: torch's ``allocated`` and ``reserved`` peaks and the driver's figure for the ``process``.
    vram: Mapping[str, int] = field(default_factory=dict)
    #: The node of a cluster that ran it; ``None`` on this machine.
    node: str | None = None

    def __post_init__(self) -> None:
        """Refuse a status no table knows."""
        if self.status not in STATUSES:
            raise ValueError(f"status {self.status!r} is not one of {', '.join(STATUSES)}")

    @property
    def key(self) -> tuple[str, int]:
        """What tells it from other points of a sweep."""
        return axes_text(self.values), self.repeat

    @property
    def is_ok(self) -> bool:
        """Whether the process did what it was asked to."""
        return self.status == "ok"

    @property
    def error(self) -> float | None:
        """How far the expected figure is off, as a share of the truth; positive when too much was predicted."""
        if not self.is_ok or not self.peak_bytes or self.predicted is None:
            return None
        return self.predicted.expected / self.peak_bytes - 1

    def ledger(self) -> Ledger:
        """Return what was measured as a ledger; its largest phase needs ``peak_bytes``.

        Components were measured by name where they were largest. What of a phase's peak has no name is ``unexplained``;
        arrays that are larger together than the peak have pages that nothing has touched, which are ``reserved``. Children
        are a line each, as in a plan. An unknown size has no line.
        """
        peaks = {phase: nbytes for phase, nbytes in self.phases.items() if phase in PHASES}
        top = self._peak_phase
        if self.peak_bytes is not None:
            # Phases are read in the process and the peak from beside it: a phase may be the larger by some pages.
            peaks = {phase: min(nbytes, self.peak_bytes) for phase, nbytes in peaks.items()} | {top: self.peak_bytes}
        entries: list[Entry] = []
        for phase, nbytes in peaks.items():
            entries += self._components(phase, nbytes) if phase == top else [_measured(UNKNOWN, phase, nbytes)]
        return Ledger((*entries, *self._vram(top)))

    @property
    def _peak_phase(self) -> str:
        """The phase of the peak: of a process that was ended, the one after those that it had finished."""
        seen = [phase for phase in PHASES if phase in self.phases]
        if not seen:
            return "update"  # what every point is measured for
        largest = max(reversed(seen), key=lambda phase: self.phases[phase])
        is_later = self.peak_bytes is not None and self.peak_bytes > self.phases[largest]
        if self.is_ok or not is_later or seen[-1] == PHASES[-1]:
            return largest
        return PHASES[PHASES.index(seen[-1]) + 1]

    def _components(self, phase: str, peak_bytes: int) -> Iterator[Entry]:
        """What has a name, the largest first; of the largest are the pages that the peak has no room for."""
        left, resident = peak_bytes, []
        for key, nbytes in reversed(self._sizes()):
            resident.append((key, nbytes, min(nbytes, left)))
            left -= min(nbytes, left)
        for (name, process), nbytes, touched in reversed(resident):
            if touched:
                yield _measured(name, phase, touched, process)
            if nbytes > touched:
                yield _measured(name, phase, nbytes - touched, process, residency="reserved")
        if left:
            yield _measured(UNKNOWN, phase, left)

    def _sizes(self) -> list[tuple[tuple[str, str], int]]:
        """Bytes by component and process, the largest first; those of RLlib are a process each."""
        sizes: dict[tuple[str, str], int] = {}
        for name, nbytes in self.components.items():
            sizes[name, name.partition("process.")[2] or "main"] = nbytes
        for process in self.processes if all(role == "main" for _, role in sizes) else ():
            name = process_of(process.role)
            if name != "main" and process.bytes_at_peak is not None:
                sizes[name, name] = sizes.get((name, name), 0) + process.bytes_at_peak
        return sorted(sizes.items(), key=lambda item: -item[1])

    def _vram(self, phase: str) -> Iterator[Entry]:
        """What torch allocated, what it keeps beside that, and what the process has without torch's."""
        rows = ((UNKNOWN, "allocated", ""), (CACHE, "reserved", "allocated"), (CONTEXT, "process", "reserved"))
        for component, name, without in rows:
            if name in self.vram and (not without or without in self.vram):
                nbytes = self.vram[name] - self.vram.get(without, 0)
                if nbytes > 0:
                    yield _measured(component, phase, nbytes, device="vram")


def _measured(
    component: str,
    phase: str,
    nbytes: int,
    process: str = "main",
    *,
    device: str = "ram",
    residency: str = "resident",
) -> Entry:
    return Entry(
        component=component,
        device=device,
        process=process,
        phase=phase,
        amount=Quantity.of(nbytes, component, "measured in a fresh process"),
        basis="measured",
        residency=residency,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A name and the values to try."""

    name: str
    values: tuple[int | str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointLimits:
    """How far a point may go."""

    cap_bytes: int | None = None
    time_limit_s: float | None = None
    #: Updates to run before the point ends; ``None`` is as few as tell the truth.
    updates: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PointOptions:
    """How points are measured: the same for every point of a sweep."""

    #: The run's own interpreter; ``None`` leaves the choice to the target.
    python: str | None = None
    #: Arguments of the user's script.
    args: tuple[str, ...] = ()
    #: ``--set path=value`` changes of a described run.
    sets: tuple[str, ...] = ()
    cap_bytes: int | None = None
    time_limit_s: float | None = None
    #: Updates to run before the point ends; ``None`` is as few as tell the truth.
    updates: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """What a sweep asks for, beside its target; the store keeps it with the run."""

    axes: tuple[Axis, ...] = ()
    repeat: int = 1
    options: PointOptions = field(default_factory=PointOptions)
