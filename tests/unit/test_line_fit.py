"""Lines through points: costs, intervals, and when a line is a bad description."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmem.core.line_fit import Sample, fit_lines, student


def along(sizes: dict[int, int], axis: str = "agents") -> list[Sample]:
    return [({axis: value}, size) for value, size in sizes.items()]


@given(
    fixed=st.integers(0, 10**12),
    each=st.integers(1, 10**7),
    values=st.lists(st.integers(0, 10**8), min_size=2, max_size=8, unique=True),
)
def test_points_on_a_line_give_that_line(fixed: int, each: int, values: list[int]) -> None:
    (line,) = fit_lines(along({value: fixed + each * value for value in values}))
    assert line.fixed_bytes == fixed
    assert line.terms[0].bytes_each == each
    assert line.worst == 0
    assert line.good
    assert not line.bent


def test_two_points_have_no_interval() -> None:
    (line,) = fit_lines(along({1: 10, 2: 12}))
    assert (line.fixed_bytes, line.terms[0].bytes_each) == (8, 2)
    assert (line.fixed_margin_bytes, line.terms[0].margin_bytes) == (None, None)


def test_the_interval_is_the_textbooks() -> None:
    # x = 1..5, y = 2.1, 3.9, 6.2, 7.8, 10.1 (times 10): slope 1.99 ± 0.190, intercept 0.05 ± 0.630.
    (line,) = fit_lines(along({1: 21, 2: 39, 3: 62, 4: 78, 5: 101}))
    assert line.terms[0].bytes_each == pytest.approx(19.9)
    assert line.terms[0].margin_bytes == pytest.approx(1.9004, abs=0.001)
    assert line.fixed_bytes == pytest.approx(0.5)
    assert line.fixed_margin_bytes == pytest.approx(6.303, abs=0.001)


def test_repeats_narrow_the_interval() -> None:
    once = along({100: 1_010, 200: 1_990, 300: 3_010})
    assert (fit_lines(once * 3)[0].terms[0].margin_bytes or 0) < (fit_lines(once)[0].terms[0].margin_bytes or 0)


def test_nothing_that_varies_has_no_line() -> None:
    assert fit_lines([]) == ()
    assert fit_lines([({}, 5)]) == ()
    assert fit_lines(along({3: 5})) == ()


def test_a_square_is_bent() -> None:
    (line,) = fit_lines(along({value: 1000 + value * value for value in (10, 100, 200, 400)}))
    assert line.bent
    assert not line.good
    assert line.slopes == (110, 600)


def test_noise_is_not_good_but_not_bent_either() -> None:
    (line,) = fit_lines(along({1: 1000, 2: 2300, 3: 2700, 4: 4000}))
    assert not line.good
    assert line.slopes == (1300, 1300)
    assert not line.bent


def test_several_axes_are_told_apart() -> None:
    samples: list[Sample] = [({"a": a, "b": b}, 7 + 3 * a + 1000 * b) for a in (1, 10, 100) for b in (1, 2)]
    (line,) = fit_lines(samples)
    assert line.fixed_bytes == 7
    assert {term.axis: term.bytes_each for term in line.terms} == {"a": 3, "b": 1000}


def test_axes_that_move_together_cannot_be_told_apart() -> None:
    assert fit_lines([({"a": n, "b": 2 * n}, 10 * n) for n in (1, 2, 3)]) == ()


def test_points_that_cannot_tell_all_axes_apart_give_a_line_where_the_others_stand_still() -> None:
    samples: list[Sample] = [
        ({"a": 1, "b": 1, "c": 1}, 10),
        ({"a": 2, "b": 1, "c": 1}, 13),
        ({"a": 1, "b": 3, "c": 3}, 30),
    ]
    (line,) = fit_lines(samples)
    assert [(term.axis, term.bytes_each) for term in line.terms] == [("a", 3)]
    assert line.held == {"b": 1, "c": 1}


def test_an_axis_with_one_value_stands_still() -> None:
    (line,) = fit_lines([({"a": 1, "b": 5}, 10), ({"a": 2, "b": 5}, 13)])
    assert line.held == {"b": 5}


def test_words_split_the_points() -> None:
    samples: list[Sample] = [
        ({"env": env, "n": n}, cost * n) for env, cost in (("Ant", 5), ("Hopper", 3)) for n in (1, 2)
    ]
    lines = fit_lines(samples)
    assert [(line.held["env"], line.terms[0].bytes_each) for line in lines] == [("Ant", 5), ("Hopper", 3)]


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (9, 2.262), (10, 2.2281), (20, 2.0860), (120, 1.9799)])
def test_students_t_is_the_tables(freedom: int, value: float) -> None:
    assert student(freedom) == pytest.approx(value, abs=2e-4)
