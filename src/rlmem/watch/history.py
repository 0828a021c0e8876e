"""Moments kept for the verdict: all of the last few minutes, ever fewer of what is older. Bounded, however long it runs.

The moments that stay are those that come at the right time, not the largest of a stretch: keeping peaks would make the
past look larger than the present, and hide a leak under a sawtooth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlmem.core.moments import Moment
from rlmem.watch.owners import fold

#: Of moments as old as T one every T/KEPT stays; so 200 at full rate, and 140 for each doubling of the time.
KEPT, KEPT_LOOKS = 200, 60
#: Old moments are let go in batches.
BATCH = 200
#: Owners kept with a look, largest first.
MOST_OWNERS = 200


class History:
    """The moments of one watch, oldest first."""

    def __init__(self) -> None:
        self._moments: list[Moment] = []
        self._added = 0

    @property
    def moments(self) -> Sequence[Moment]:
        """What is left, in order; not to be changed."""
        return self._moments

    def add(self, moment: Moment) -> None:
        """Keep one more."""
        if moment.holdings is not None:
            folded = sorted(fold(moment.holdings), key=lambda held: -max(held.resident_bytes, held.nbytes))
            moment = replace(moment, holdings=tuple(folded[:MOST_OWNERS]))
        self._moments.append(moment)
        self._added += 1
        if self._added >= BATCH:
            self._added = 0
            self._moments = thin(self._moments)


def thin(moments: Sequence[Moment]) -> list[Moment]:
    """The moments that stay; a look at owners whose time is up stays as a plain moment."""
    now, kept = moments[-1].at_s, list[Moment]()
    plain = look = float("inf")
    for moment in reversed(moments):
        age = now - moment.at_s
        if moment.holdings is not None and look - moment.at_s >= age / KEPT_LOOKS:
            look = plain = moment.at_s
            kept.append(moment)
        elif plain - moment.at_s >= age / KEPT:
            plain = moment.at_s
            kept.append(moment if moment.holdings is None else replace(moment, holdings=None, portions=None))
    return kept[::-1]
