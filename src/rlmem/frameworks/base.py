"""What an adapter is: the one place that knows a framework's names, defaults and order of allocations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlmem.model.constants import Constants
from rlmem.model.rehearsal import Rehearsal
from rlmem.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something the framework itself will refuse: what, which field, and what to do."""

    reason: str
    location: str
    remedy: str
    severity: str = "error"


def _nothing(spec: RunSpec) -> tuple[Refusal, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapter:
    """A framework: its algorithms, how it fills in defaults, and its rehearsal."""

    name: str
    algorithms: tuple[str, ...]
    on_policy: tuple[str, ...]
    resolve: Callable[[RunSpec], RunSpec]
    rehearsal: Callable[[RunSpec, Constants], Rehearsal]
    refusals: Callable[[RunSpec], tuple[Refusal, ...]] = _nothing
