"""How far a knob can be turned, on planners whose memory is a straight line."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from rlmem.capacity import largest
from rlmem.core.ledger import Entry, Ledger
from rlmem.core.plan import Budget, Plan
from rlmem.core.quantity import Quantity
from rlmem.core.spec import RunSpec

SPEC = RunSpec().having({"buffer_size": 1000}, "test")


def straight(fixed: int, each: int, limit: int | None, *, spread: int = 0) -> Callable[[RunSpec], Plan]:
    """A planner: fixed + each × buffer_size bytes of RAM, and an upper bound ``spread`` above it."""

    def plan(spec: RunSpec) -> Plan:
        size = fixed + each * spec.count("buffer_size")
        amount = Quantity.of(size, "store", "test", high=size + spread)
        held = Entry(component="s", device="ram", process="main", phase="update", amount=amount, basis="exact")
        ledger = Ledger((held,))
        return Plan(spec=spec, budget=Budget(name="t"), ledger=ledger, peaks=ledger.peaks({"ram": limit}))

    return plan


@given(fixed=st.integers(0, 10**10), each=st.integers(1, 10**6), room=st.integers(0, 10**12))
def test_the_largest_value_fits_and_one_more_does_not(fixed: int, each: int, room: int) -> None:
    limit = fixed + each + room
    found = largest(SPEC, "buffer_size", straight(fixed, each, limit))
    assert found.value is not None
    assert found.plan is not None
    assert fixed + each * found.value <= limit < fixed + each * (found.value + 1)
    assert found.plan.spec.count("buffer_size") == found.value
    assert not found.unlimited


@given(spread=st.integers(0, 10**6))
def test_the_upper_bound_has_to_fit_unless_only_the_expected_is_asked(spread: int) -> None:
    planner = straight(0, 10, 10**7, spread=spread)
    assert largest(SPEC, "buffer_size", planner).value == max((10**7 - spread) // 10, 1)
    assert largest(SPEC, "buffer_size", planner, expected=True).value == 10**6


def test_nothing_fits_where_the_smallest_value_is_too_much() -> None:
    found = largest(SPEC, "buffer_size", straight(100, 1, 100))
    assert (found.value, found.unlimited) == (None, False)
    assert found.plan is not None


def test_a_knob_that_costs_nothing_has_no_limit() -> None:
    found = largest(SPEC, "buffer_size", straight(100, 0, 100))
    assert (found.value, found.unlimited) == (None, True)


def test_without_a_limit_there_is_none_to_reach() -> None:
    assert largest(SPEC, "buffer_size", straight(100, 1, None)).unlimited


@given(jump=st.integers(2, 10**6), limit=st.integers(10**4, 10**9))
def test_steps_in_the_line_are_settled_by_halving(jump: int, limit: int) -> None:
    def plan(spec: RunSpec) -> Plan:
        size = spec.count("buffer_size") // jump * jump + spec.count("buffer_size")
        return straight(size, 0, limit)(spec)

    found = largest(SPEC, "buffer_size", plan)
    assert found.value is not None
    assert found.value // jump * jump + found.value <= limit
    assert (found.value + 1) // jump * jump + found.value + 1 > limit


def test_the_search_needs_few_plans() -> None:
    calls = 0
    planner = straight(123_456, 42_336, 30 * 10**9)

    def counted(spec: RunSpec) -> Plan:
        nonlocal calls
        calls += 1
        return planner(spec)

    largest(SPEC, "buffer_size", counted)
    assert calls < 20
