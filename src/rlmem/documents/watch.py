"""Events of a watch, beside its moments, and what there is to draw of one of its targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rlmem.core.moments import Moment
from rlmem.documents.moment import JudgementPart, MomentDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePart:
    """A note on one target, which comes once."""

    target: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePart:
    """A line for the user: the end of a target, a warning, where metrics are served. ``is_aside``: for standard error."""

    text: str
    is_aside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenPart:
    """What was seen of a target in all: for how long, the most it held, and the last verdict."""

    seconds: float
    peak_bytes: int
    peak_at_s: float
    judgement: JudgementPart


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEndPart:
    """The end of a watch: what was not told yet, each target with what was seen of it, and why the watch fails, if it does."""

    remarks: tuple[str, ...]
    targets: tuple[tuple[str, SeenPart | None], ...]
    failure: str = ""


WatchEvent: TypeAlias = MomentDocument | NotePart | MessagePart | WatchEndPart


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedPart:
    """A target while it is watched: its last moment with owners as they were last seen, all moments, and its end."""

    target: str
    last: MomentDocument | None
    moments: tuple[Moment, ...]
    end: str = ""
