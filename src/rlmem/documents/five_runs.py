"""The five reference runs: what was said by hand, what rlmem says, and why they differ."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim beside what rlmem computes."""

    what: str
    said: str
    ours: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A table of figures, theirs beside ours."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRun:
    """A run with the claims of its document; ``after`` is what is said beneath them."""

    title: str
    command: str
    claims: tuple[Claim, ...]
    after: tuple[str | Figures, ...] = ()
