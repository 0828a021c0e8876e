"""A finding: something worth knowing about a run, with a code, a severity, a remedy and what the remedy saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlmem.core.edits import Fix

#: error: the run will not work as described; warning: memory wasted or at risk; info: good to know, nothing wrong.
SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a file: lines and columns count from 1, columns in characters; ``cell`` is a notebook's, from 1."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's word on one subject: a plan, a script, a running process.

    ``saves_bytes`` is what the remedy saves at the peak, as a difference of two plans where there are plans.
    ``costs_bytes`` is what the mistake costs as things are: in all, or for every ``costs_per`` (step, worker, episode).
    Both are ``None`` when they are not known. A field or a component is a ``location``, a line of a file a ``place``.
    """

    code: str
    name: str
    severity: str
    title: str
    saves_bytes: int | None = None
    location: str | None = None
    remedy: str | None = None
    changes: tuple[tuple[str, Any], ...] = ()
    costs_bytes: int | None = None
    costs_per: str = ""
    place: Place | None = None
    fix: Fix | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A finding on the run that a process was started as; ``returns_bytes`` is what its remedy would give back right now.

    That is ``None`` when the remedy lowers the peak of an update and not what is held between updates.
    """

    finding: Finding
    returns_bytes: int | None = None
