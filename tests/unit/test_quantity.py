"""Quantities: numbers that remember how they came about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmem.core.quantity import Quantity, Term, total

ROWS = Quantity.of(100, "rows", "buffer_size")
WIDTH = Quantity.of(8, "width", "observation")
ROUGH = Quantity.of(10, "rough", "measured", low=5, high=20)


def test_a_product_shows_names_numbers_and_result() -> None:
    assert (ROWS * 4 * WIDTH).formula == "rows × 4 × width = 100 × 4 × 8 = 3,200 B"


def test_a_sum_inside_a_product_gets_parentheses_and_a_product_inside_a_sum_does_not() -> None:
    assert ((ROWS + WIDTH) * 2).formula == "(rows + width) × 2 = (100 + 8) × 2 = 216 B"
    assert (ROWS * 2 + WIDTH).formula == "rows × 2 + width = 100 × 2 + 8 = 208 B"
    assert (ROWS * (WIDTH + 2)).names == "rows × (width + 2)"


def test_division_keeps_the_grouping_that_gives_its_value() -> None:
    divided = ROWS // (WIDTH * 2)
    assert divided.formula == "rows // (width × 2) = 100 // (8 × 2) = 6 B"
    assert eval(divided.numbers.replace("×", "*")) == divided.value
    assert eval((ROWS // WIDTH // Quantity.of(3, "three", "x")).numbers) == 100 // 8 // 3


def test_multiplying_by_one_and_adding_zero_leave_no_trace() -> None:
    assert ROWS * 1 is ROWS
    assert 1 * ROWS is ROWS
    assert ROWS + 0 is ROWS


def test_a_plain_name_is_not_repeated_as_a_formula() -> None:
    assert ROWS.formula == "rows = 100 B"
    assert Quantity.literal(7).formula == "7 B"


def test_a_named_result_is_one_term_that_its_parts_explain() -> None:
    size = (ROWS * WIDTH).named("whole buffer")
    assert (size * 2).formula == "whole buffer × 2 = 800 × 2 = 1,600 B"
    assert size.terms == (
        Term(name="whole buffer", value=800, origin="rows × width = 100 × 8 = 800"),
        Term(name="rows", value=100, origin="buffer_size"),
        Term(name="width", value=8, origin="observation"),
    )
    assert (ROWS * WIDTH).named("whole", "given").terms[0].origin == "given"


def test_a_term_that_occurs_twice_is_listed_once() -> None:
    assert (ROWS * ROWS).terms == (Term(name="rows", value=100, origin="buffer_size"),)


def test_low_and_high_travel_through_arithmetic() -> None:
    assert [(ROUGH * 3).low, (ROUGH * 3).high] == [15, 60]
    assert [(ROUGH + ROWS).low, (ROUGH + ROWS).high] == [105, 120]
    assert [(ROWS // ROUGH).low, (ROWS // ROUGH).value, (ROWS // ROUGH).high] == [5, 10, 20]


def test_a_range_keeps_the_expected_value_and_says_why() -> None:
    spread = (ROWS * 2).between(0.5, 1.25, "layouts differ")
    assert (spread.low, spread.value, spread.high) == (100, 200, 250)
    assert spread.formula == "rows × 2 = 100 × 2 = 200 B"
    assert Term(name="range", value=200, origin="0.5 to 1.25 × expected: layouts differ") in spread.terms


def test_a_floor_or_ceiling_appears_only_when_it_can_matter() -> None:
    assert ROUGH.at_least(5) is ROUGH
    assert ROUGH.at_most(20) is ROUGH
    floor, ceiling = ROUGH.at_least(8), ROUGH.at_most(15)
    assert (floor.low, floor.value, floor.high) == (8, 10, 20)
    assert (ceiling.low, ceiling.value, ceiling.high) == (5, 10, 15)
    assert floor.names == "max(8, rough)"
    assert ceiling.names == "min(15, rough)"


def test_percent_of_takes_its_range_from_the_percentage() -> None:
    part = Quantity.of(2, "slack", "measured", low=0, high=7).percent_of(Quantity.of(1000, "tensors", "peak"))
    assert (part.low, part.value, part.high) == (0, 20, 70)
    assert part.formula == "slack % of tensors = 2 % of 1,000 = 20 B"


def test_a_long_sum_shows_the_largest_parts_and_counts_the_rest() -> None:
    parts = [Quantity.of(size, f"part{size}", "x") for size in (1, 2, 3, 40, 50)]
    assert total(parts).formula == "part50 + part40 + part3 + 2 smaller = 50 + 40 + 3 + 2 smaller = 96 B"
    assert total([ROWS * 2, ROWS * 2]).names == "2 × (rows × 2)"
    assert total([ROWS]) is ROWS
    assert total([]).value == 0


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6))
def test_the_range_of_a_sum_holds_its_expected_value(parts: list[tuple[int, int, int]]) -> None:
    triples = [sorted(part) for part in parts]
    added = total(Quantity.of(mid, "x", "y", low=low, high=high) for low, mid, high in triples)
    assert [added.low, added.value, added.high] == [sum(column) for column in zip(*triples, strict=True)]
    assert added.low <= added.value <= added.high


numbers = st.integers(1, 30).map(lambda n: Quantity.of(n, "n", "x"))
expressions = st.recursive(
    numbers,
    lambda inner: st.tuples(inner, inner, st.sampled_from("*+/")).map(
        lambda t: t[0] * t[1] if t[2] == "*" else t[0] + t[1] if t[2] == "+" else t[0] // (t[1] + 1)
    ),
    max_leaves=8,
)


@given(expressions)
def test_a_formula_with_its_numbers_evaluates_to_the_value(quantity: Quantity) -> None:
    assert eval(quantity.numbers.replace("×", "*").replace(",", "")) == quantity.value


@pytest.mark.parametrize("low", [0, 0.5])
def test_a_range_never_changes_what_is_expected(low: float) -> None:
    assert ROUGH.between(low, 2, "why").value == ROUGH.value
