"""For how long a program has done nothing at all, where that is longer than it ever was before. Pure; no files, no clock.

A program waits without being stuck: for a robot, a web service, a disk. Then it takes little CPU time, but some, or its
memory, its steps or its stores change. Only when none of that moves, and for twice as long as in any pause before, is it
stuck.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rlmem.core.moments import Moment
from rlmem.units import MIB

#: A pause that is so many times as long as any before is none of the program's own.
UNUSUAL = 2
#: What the resident pages of a program that does nothing may change by: the kernel takes some back.
STILL_BYTES, STILL_SHARE = MIB, 0.001


def read_pause(moments: Sequence[Moment], *, fewest: int) -> float | None:
    """Seconds without CPU time, step or change of memory; None for less than ``fewest`` samples, or a usual pause."""
    if len(moments) < fewest:
        return None
    last, longest = moments[-1], 0.0
    begin, still = moments[0].at_s, moments[0]
    step, fills = still.progress, _fills(still)
    for before, moment in pairwise(moments):
        moved = moment.at_s - moment.idle_s > before.at_s or _differs(moment, still)
        if moment.progress is not None:
            moved = moved or (step is not None and moment.progress.step != step.step)
            step = moment.progress
        if moment.holdings is not None:
            now = _fills(moment)
            moved = moved or (fills is not None and now != fills)
            fills = now
        if moved:
            longest = max(longest, before.at_s - begin)
            begin, still = moment.at_s, moment
    pause = last.at_s - begin
    return pause if pause >= last.at_s - moments[-fewest].at_s and pause > UNUSUAL * longest else None


def _differs(moment: Moment, still: Moment) -> bool:
    # Not what the tree holds together: that also changes when other programs come to share its libraries.
    return abs(moment.rss_bytes - still.rss_bytes) > max(STILL_BYTES, STILL_SHARE * still.rss_bytes)


def _fills(moment: Moment) -> frozenset[tuple[str, int]] | None:
    if moment.holdings is None:
        return None
    return frozenset((held.path, held.filled) for held in moment.holdings if held.filled is not None)
