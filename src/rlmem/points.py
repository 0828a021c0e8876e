"""One measured process as plain data: what was asked, how it ended, what it held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

#: How a measured process can end; every one of them is a row of the table.
STATUSES = ("ok", "failed", "oom", "timeout", "killed", "interrupted")

Values = Mapping[str, int | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measured process; sizes are bytes, and an unknown one is ``None`` or left out, never 0."""

    #: The axis values of this point.
    values: Values
    status: str
    #: Peak of the process tree, each shared page counted once (PSS).
    peak_bytes: int | None
    #: Phase to the tree's peak in that phase.
    phases: Mapping[str, int] = field(default_factory=dict)
    #: Measured bytes of named arrays, such as ``replay.observations``.
    components: Mapping[str, int] = field(default_factory=dict)
    processes: tuple[Mapping[str, Any], ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    wall_s: float = 0.0
    #: One line: why it failed, or what is special about it.
    note: str = ""
    #: ``low``, ``expected`` and ``high`` of the plan of this very point.
    predicted: Mapping[str, int] | None = None
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
    def is_ok(self) -> bool:
        """Whether the process did what it was asked to."""
        return self.status == "ok"

    @property
    def error(self) -> float | None:
        """How far the expected figure is off, as a share of the truth; positive when too much was predicted."""
        if not self.is_ok or not self.peak_bytes or self.predicted is None:
            return None
        return self.predicted["expected"] / self.peak_bytes - 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "processes": [dict(process) for process in self.processes]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Point:
        """Read what any version wrote: what it did not know yet is left out, what came later is passed over."""
        known = {item.name: data[item.name] for item in fields(cls) if item.name in data}
        return cls(**{**known, "processes": tuple(known.get("processes", ()))})


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
