"""What an adapter is: the one place that knows a framework's names, defaults and order of allocations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlmem.core.spec import RunSpec
from rlmem.model.constants import Constants
from rlmem.model.rehearsal import Rehearsal


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Something the framework itself will refuse: what, which field, and what to do."""

    reason: str
    location: str
    remedy: str
    severity: str = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """A store of rlmem's that can take the place of the framework's own: its name, and the change to a program."""

    store: str
    change: str
    module: str = "rlmem.sb3"
    #: The argument that carries its options, where there is one.
    options: str | None = None

    @property
    def sentence(self) -> str:
        """What to write."""
        return f"from {self.module} import {self.store}; {self.change}"


def _no_notes(spec: RunSpec) -> tuple[str, ...]:
    return ()


def _no_swap(spec: RunSpec) -> Swap | None:
    return None


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
    #: The compact store for a run, where there is one.
    swap: Callable[[RunSpec], Swap | None] = _no_swap
    #: What the reader of a closed form should know about it.
    notes: Callable[[RunSpec], tuple[str, ...]] = _no_notes
