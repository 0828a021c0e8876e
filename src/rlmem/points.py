"""One measured process: what was asked, how it ended, what it held."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from rlmem.ledger import Peak

#: How a measured process can end; every one of them is a row of the table.
STATUSES = ("ok", "failed", "oom", "timeout", "killed", "interrupted")
if TYPE_CHECKING:  # to the type checker it is text; a reader of JSON takes only the words of the table
    Status: TypeAlias = str
else:
    Status = Literal[STATUSES]

Values = Mapping[str, int | str]


def axes_text(values: Values) -> str:
    """Return the values of a point as one text, by which points are compared."""
    return json.dumps(dict(values), sort_keys=True)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A name and the values to try."""

    name: str
    values: tuple[int | str, ...]


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
