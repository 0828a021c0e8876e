"""How far a knob can be turned: the largest value that fits, and a table of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlmem.fields import find_field
from rlmem.plan import Plan
from rlmem.spec import RunSpec
from rlmem.units import ABSURD_COUNT

#: Evaluations before a search gives up on interpolation and halves the bracket instead.
_INTERPOLATIONS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The largest value of a knob under a budget, or the reason there is none."""

    value: int | None
    plan: Plan | None
    unlimited: bool = False


def largest(spec: RunSpec, path: str, replan: Callable[[RunSpec], Plan], *, expected: bool = False) -> Capacity:
    """The largest value of ``path`` whose plan still fits: with its upper bound, or only as expected.

    Memory grows almost linearly in every count, so the search interpolates between two plans and settles the
    rest by halving; a handful of plans is enough.
    """
    smallest = max(find_field(path).minimum, 1)

    def at(value: int) -> Plan:
        return replan(spec.having({path: value}, "capacity search"))

    def over(plan: Plan) -> int:
        """Bytes above the tightest limit; negative is room."""
        return max(
            (
                (p.expected_bytes if expected else p.high_bytes) - p.limit_bytes
                for p in plan.peaks
                if p.limit_bytes is not None
            ),
            default=-1,
        )

    first = low_plan = at(smallest)
    low = smallest
    if over(first) > 0:
        return Capacity(value=None, plan=first)
    if all(peak.limit_bytes is None for peak in first.peaks):
        return Capacity(value=None, plan=first, unlimited=True)
    high = max(2 * int(spec.get(path, smallest)), 2 * smallest, 1024)
    while over(high_plan := at(high)) <= 0:
        low, low_plan = high, high_plan
        if high >= ABSURD_COUNT // 4:
            return Capacity(value=None, plan=high_plan, unlimited=True)
        growth = max(over(high_plan) - over(first), 1)
        high = min(max(2 * high, high + high * -over(high_plan) // growth * 11 // 10), ABSURD_COUNT // 2)
    excess = over(high_plan)
    for step in range(80):
        if high - low <= 1:
            break
        room = -over(low_plan)
        guess = low + (high - low) * room // max(room + excess, 1) if step < _INTERPOLATIONS else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        plan = at(guess)
        if over(plan) <= 0:
            low, low_plan = guess, plan
        else:
            high, excess = guess, over(plan)
    return Capacity(value=low, plan=low_plan)
