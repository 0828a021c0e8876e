"""A finding: something worth knowing about a run, with a code, a severity, a remedy and what the remedy saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: error: the run will not work as described; warning: memory wasted or at risk; info: good to know, nothing wrong.
SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One rule's word on one run; ``saves_bytes`` is a difference of two plans, ``None`` when nothing is saved."""

    code: str
    name: str
    severity: str
    title: str
    saves_bytes: int | None = None
    location: str | None = None
    remedy: str | None = None
    changes: tuple[tuple[str, Any], ...] = ()
