"""How far a knob can be turned: the largest value that fits, and a table of values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rlmem.core.fields import find_field
from rlmem.core.plan import Plan
from rlmem.core.spec import RunSpec
from rlmem.core.subject import CHANGED
from rlmem.errors import SpecError
from rlmem.units import ABSURD_COUNT

#: Evaluations before a search gives up on interpolation and halves the bracket instead.
_INTERPOLATIONS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The largest value of a knob under a budget, or the reason there is none."""

    value: int | None
    plan: Plan | None
    unlimited: bool = False


def over(plan: Plan, *, expected: bool = False, device: str | None = None) -> int:
    """Bytes above the tightest limit, in any phase; zero or less is room. Without limits everything fits."""
    return max(
        (
            (peak.expected_bytes if expected else peak.high_bytes) - peak.limit_bytes
            for peak in plan.peaks
            if peak.limit_bytes is not None and device in (None, peak.device)
        ),
        default=-1,
    )


def largest(
    spec: RunSpec, path: str, replan: Callable[[RunSpec], Plan], *, expected: bool = False, device: str | None = None
) -> Capacity:
    """The largest value of ``path`` whose plan still fits: with its upper bound, or only as expected; on every
    device with a limit, or on one.

    Memory grows almost linearly in every count, so the search interpolates between two plans and settles the
    rest by halving; a handful of plans is enough. It ends where more would be of no use (:func:`useful`).
    """
    smallest = max(find_field(path).minimum, 1)

    def at(value: int) -> Plan:
        return replan(spec.having({path: value}, CHANGED))

    def excess_of(plan: Plan) -> int:
        return over(plan, expected=expected, device=device)

    now = replan(spec)
    value = int(now.spec.get(path, smallest))
    if all(peak.limit_bytes is None for peak in now.peaks):
        return Capacity(value=None, plan=now, unlimited=True)
    if excess_of(now) <= 0:
        low, low_plan, high, excess = value, now, 0, 0
    else:
        found = _below(value, smallest, at, excess_of)
        if found is None:
            return Capacity(value=None, plan=now)
        (low, low_plan), high, excess = found, value, excess_of(now)
    growth = 0
    most = max(useful(now, path) or ABSURD_COUNT, value)
    while not high:
        if low >= most:
            endless = most >= ABSURD_COUNT
            return Capacity(value=None if endless else low, plan=low_plan, unlimited=endless)
        # Extend the line through the last two plans a little past the limit; at least double.
        guess = low + -excess_of(low_plan) * 11 // (10 * growth) if growth else 0
        further = min(max(2 * low, guess), most)
        plan = at(further)
        if excess_of(plan) > 0:
            high, excess = further, excess_of(plan)
        else:
            growth = max((excess_of(plan) - excess_of(low_plan)) // max(further - low, 1), 0)
            low, low_plan = further, plan
    for step in range(80):
        if high - low <= 1:
            break
        room = -excess_of(low_plan)
        guess = low + (high - low) * room // max(room + excess, 1) if step < _INTERPOLATIONS else (low + high) // 2
        guess = min(max(guess, low + 1), high - 1)
        plan = at(guess)
        if excess_of(plan) <= 0:
            low, low_plan = guess, plan
        else:
            high, excess = guess, excess_of(plan)
    return Capacity(value=low, plan=low_plan)


def useful(plan: Plan, path: str) -> int | None:
    """The value beyond which a run gains nothing, where one is known: the steps it has, the cores for its workers."""
    spec = plan.spec
    if path == "buffer_size" and "resume.replay_buffer" not in spec:
        steps = spec.get("total_timesteps")
        return None if steps is None else int(steps)
    if path == "n_envs" and spec.get("vec_env") == "subproc":
        return plan.budget.cores
    return None


def _below(
    value: int, smallest: int, at: Callable[[int], Plan], over: Callable[[Plan], int]
) -> tuple[int, Plan] | None:
    """A smaller value that fits, by repeated halving; a value too small to make sense of (SpecError) ends the search."""
    while value > smallest:
        value = max(value // 2, smallest)
        try:
            plan = at(value)
        except SpecError:
            return None
        if over(plan) <= 0:
            return value, plan
    return None
