"""A buffer is filling up; that is growth with an end, not a leak.

``np.zeros`` reserves address space and takes memory only when a row is written for the first time. So the resident
memory of a run rises with every step until its buffer is full, and stays there. Many a "memory leak" is this. What
counts is where it ends: the finding says how much is still to come.

Use instead: nothing is wrong. Compare what it will reach with what there is; a smaller ``buffer_size`` or a store that
keeps every observation once lowers it.

Reference: DLR-RM/stable-baselines3#37; toshikwa/sac-discrete.pytorch#28; danijar/dreamerv3#47.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import Holding, TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.observed import WARN_BYTES
from rlmem.units import format_size


def check_live(rule: Rule, found: TreeExplanation) -> Iterator[Finding]:
    """One finding a process: the arrays of its stores that are not full yet, together."""
    for process in found.processes:
        growing = [holding for holding in process.holdings if _fills(holding)]
        to_come = sum(holding.growth_bytes or 0 for holding in growing)
        if to_come < WARN_BYTES:
            continue
        largest = max(growing, key=lambda holding: holding.growth_bytes or 0)
        now = sum(holding.resident_bytes for holding in growing)
        share = 100 * (largest.filled or 0) // (largest.capacity or 1)
        full = now + sum(holding.full_growth_bytes or 0 for holding in growing)
        stops = " when the run ends" if full > now + to_come else ", and stops there"
        yield rule.finding(
            f"{largest.path} is {share} % full: its buffer has {format_size(now)}, will reach {format_size(now + to_come)}"
            f"{stops}{f' (full: {format_size(full)})' if full > now + to_come else ''}",
            location=largest.path,
            costs_bytes=to_come,
            remedy="no leak; make sure that what it will reach fits",
        )


def _fills(holding: Holding) -> bool:
    if holding.device != "ram" or holding.filled is None or not holding.capacity:
        return False
    return holding.kind in {"array", "tensor", "store", "container"} and holding.filled < holding.capacity
