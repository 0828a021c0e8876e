"""What a verdict is taken from: the trends of a series of moments, its owners, its stores and its pauses. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from rlmem.core.moments import Moment
from rlmem.watch.forecast import Pace, Stores, read_pace, read_stores
from rlmem.watch.growth import FEWEST, Trend, find_surge, find_trend
from rlmem.watch.owners import Owner, bounded_bytes, looks, read_owners
from rlmem.watch.pauses import read_pause
from rlmem.watch.shapes import Shape, read_shape

#: As many times the usual size of others with the same command is no chance.
OUTSIZED = 4
VRAM = "vram"
_WORKER = re.compile(r"^worker \d+: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Everything the verdict is taken from."""

    last: Moment
    samples: int
    looks: int
    total: Trend | None
    shape: Shape | None
    residual: Trend | None
    vram: Trend | None
    owners: tuple[Owner, ...]
    stores: Stores
    pace: Pace | None
    is_outsized: bool
    pause_s: float | None

    @property
    def has_names(self) -> bool:
        """Whether owners were seen at all."""
        return self.looks > 0

    @property
    def inside_per_s(self) -> float:
        """What owners with an end gain."""
        return sum(owner.growth.bytes_per_s for owner in self.owners if owner.is_bounded and owner.device == "ram")

    def stands_for(self, owner: Owner) -> float:
        """How many processes have such an owner: a few of the workers are asked, and all do the same."""
        twins = sum(_place(other.name) == _place(owner.name) for other in self.owners)
        return max(1.0, (self.last.processes - 1) / twins) if twins > 1 else 1.0

    def rising(self, device: str = "ram") -> tuple[Owner, ...]:
        """Owners without an end that rose from look to look, the fastest first."""
        free = (owner for owner in self.owners if not owner.is_bounded and owner.device == device)
        found = [owner for owner in free if owner.growth.significant or owner.keeps_rising]
        return tuple(sorted(found, key=lambda owner: -owner.growth.bytes_per_s))


def _place(name: str) -> str:
    """An owner's path in its own process: ``env.history`` for ``worker 47068: env.history``."""
    return _WORKER.sub("", name)


def read_seen(moments: Sequence[Moment], siblings: Sequence[int] = ()) -> Seen:
    """Look at a series; ``siblings`` are bytes of others that run the same command."""
    last = moments[-1]
    times, sizes = [moment.at_s for moment in moments], [moment.tree_bytes for moment in moments]
    asked = looks(moments)
    owners = read_owners(asked)
    usual = median(siblings) if len(siblings) > 1 else 0
    graphics = [moment for moment in moments if moment.vram_bytes is not None]
    total = find_trend(times, sizes)
    if total is None or not total.goes_on:
        total = find_surge(times, sizes, limit=last.limit_bytes or 2 * last.tree_bytes) or total
    return Seen(
        last=last,
        samples=len(moments),
        looks=len(asked),
        total=total,
        shape=read_shape(times, sizes) if len(times) > 1 and times[-1] > times[0] else None,
        residual=_residual(moments, asked, owners),
        vram=find_trend([moment.at_s for moment in graphics], [moment.vram_bytes or 0 for moment in graphics]),
        owners=owners,
        stores=read_stores(owners, asked, moments),
        pace=read_pace(moments),
        is_outsized=usual > 0 and last.tree_bytes > max(OUTSIZED * usual, 2 * max(siblings)),
        pause_s=read_pause(moments, fewest=FEWEST),
    )


def _residual(moments: Sequence[Moment], asked: Sequence[Moment], owners: Sequence[Owner]) -> Trend | None:
    """What the tree holds less what is resident in owners with an end, between the first and the last look."""
    if len(asked) < 2:
        return None
    part = [moment for moment in moments if asked[0].at_s <= moment.at_s <= asked[-1].at_s]
    times = [moment.at_s for moment in part]
    ended = bounded_bytes(asked, owners, times)
    return find_trend(times, [moment.tree_bytes - each for moment, each in zip(part, ended, strict=True)])
