"""The statistics of growth: what is noise, what is a step, what slows down, and what goes on."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlmem.units import MIB
from rlmem.watch.growth import (
    FEWEST,
    FEWEST_FAST,
    Trend,
    blocks,
    find_surge,
    find_trend,
    mann_kendall,
    pairwise_slopes,
    signed_rank,
    student,
)

lengths = st.integers(FEWEST, 400)
scales = st.floats(1e3, 1e11)
seeds = st.integers(0, 10_000)
FEW = settings(max_examples=40, deadline=None)


def trend(values: list[float], interval: float = 1.0) -> Trend:
    found = find_trend([index * interval for index in range(len(values))], values)
    assert found is not None
    return found


@FEW
@given(lengths, scales, st.floats(0.01, 1e8), st.floats(0.05, 60))
def test_an_exact_line_goes_on_at_its_slope(count: int, base: float, slope: float, interval: float) -> None:
    found = trend([round(base + slope * 1000 * index * interval) for index in range(count)], interval)
    assert found.goes_on
    assert found.per_s == pytest.approx(slope * 1000, rel=0.05)
    assert found.low <= found.per_s <= found.high


@FEW
@given(lengths, scales, seeds)
def test_a_line_under_noise_is_found_with_its_rate(count: int, scale: float, seed: int) -> None:
    noise = random.Random(seed)
    found = trend([scale * (index / count + noise.gauss(0, 0.02)) for index in range(count)])
    assert found.significant
    assert found.per_s == pytest.approx(scale / count, rel=0.2)


@pytest.mark.parametrize(
    ("name", "kept"),
    [("noise", 0.0), ("lasting noise", 0.95), ("a walk without direction", 1.0)],
)
def test_of_series_without_growth_hardly_any_pass(name: str, kept: float) -> None:
    noise, hits, rounds = random.Random(name), 0, 400
    for _ in range(rounds):
        level, values = 0.0, []
        for _ in range(150):
            level = kept * level + noise.gauss(0, 1)
            values.append(level)
        hits += trend(values).goes_on
    # 1 in 500 for each of the parts of the history that are looked at, of which 150 samples have two; by chance, 9
    # or more of 400 happen once in a million times then.
    assert hits < 9


@FEW
@given(lengths, scales, st.integers(1, 3), seeds)
def test_steps_are_no_leak(count: int, scale: float, steps: int, seed: int) -> None:
    chance = random.Random(seed)
    places = [chance.randrange(count) for _ in range(steps)]
    sizes = [chance.uniform(0.1, 1) for _ in range(steps)]
    values = [
        scale * (1 + sum(size for place, size in zip(places, sizes, strict=True) if index >= place))
        for index in range(count)
    ]
    assert not trend(values).goes_on


@FEW
@given(lengths, scales, st.floats(0.02, 0.7), st.floats(0, 0.003), seeds)
def test_growth_that_dies_out_is_no_leak(count: int, scale: float, share: float, noise: float, seed: int) -> None:
    chance = random.Random(seed)
    values = [scale * (1 - math.exp(-index / (share * count)) + chance.gauss(0, noise)) for index in range(count)]
    assert not trend(values).goes_on


@FEW
@given(st.integers(4, 60), scales, seeds)
def test_what_rises_and_falls_in_turn_is_no_leak(period: int, scale: float, seed: int) -> None:
    begin = random.Random(seed).randrange(period)
    assert not trend([scale * ((index + begin) % period) for index in range(300)]).goes_on


def test_a_second_rise_to_the_same_height_is_no_leak() -> None:
    tooth = [float(index) for index in range(200)]
    assert not trend([*tooth, *tooth]).goes_on


def test_a_leak_beneath_a_sawtooth_is_found_in_time() -> None:
    def values(count: int) -> list[float]:
        return [100.0 * (index % 60) / 60 + 0.3 * index for index in range(count)]

    assert not trend(values(200)).goes_on
    found = trend(values(1500))
    assert found.goes_on
    assert found.per_s == pytest.approx(0.3, rel=0.1)


def test_a_leak_that_begins_late_is_found_in_a_part_of_the_history() -> None:
    values = [500.0 * MIB] * 600 + [(500 + index) * float(MIB) for index in range(250)]
    found = trend(values)
    assert found.goes_on
    assert found.seconds < 300
    assert found.per_s == pytest.approx(MIB, rel=0.1)


def test_a_leak_after_the_imports_is_found_at_its_own_rate() -> None:
    values = [index * 40.0 * MIB for index in range(10)] + [(400 + 0.1 * index) * MIB for index in range(300)]
    found = trend(values)
    assert found.goes_on
    assert found.per_s == pytest.approx(0.1 * MIB, rel=0.1)


def test_growth_that_has_stopped_does_not_go_on() -> None:
    assert not trend([min(index, 200) * 1e6 for index in range(300)]).goes_on


def test_too_few_samples_tell_nothing() -> None:
    assert find_trend(range(FEWEST - 1), [1e9 * index for index in range(FEWEST - 1)]) is None
    assert find_trend([1.0] * FEWEST, [1.0] * FEWEST) is None


def test_the_verdict_does_not_depend_on_units_of_time_or_size() -> None:
    noise = random.Random(3)
    values = [index + noise.gauss(0, 5) for index in range(200)]
    one, other = trend(values), trend([value * 1e9 for value in values], interval=0.01)
    assert (one.significant, one.steady) == (other.significant, other.steady)
    assert other.per_s == pytest.approx(one.per_s * 1e11)


def test_ties_and_autocorrelation_widen_the_score() -> None:
    times = [float(index) for index in range(40)]
    independent = mann_kendall((times, times), 1.0)
    assert independent == (780, 40 * 39 * 85 / 18)
    coins = random.Random(1)
    tied = mann_kendall((times, [float(coins.random() < 0.5) for _ in times]), 0.0)
    assert tied[1] < independent[1]
    slow = [math.sin(index / 6) for index in range(40)]
    assert mann_kendall((times, slow), 0.0)[1] > 2 * independent[1]


def test_slopes_quantiles_and_blocks() -> None:
    assert pairwise_slopes(([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])) == [0.5, 1.0, 2.0]
    assert student(0.025, 30) == pytest.approx(2.042, rel=0.001)
    assert student(0.05, 7) == pytest.approx(1.895, rel=0.01)
    assert blocks([1.0, 1.0], [3.0, 5.0], 4) == ([1.0], [4.0])


def test_a_line_beside_one_large_step_is_found_wherever_the_step_is() -> None:
    for at in (5, 60, 150, 220):
        values = [435.0 * MIB + 0.6 * MIB * index + (120 * MIB if index > at else 0) for index in range(270)]
        found = trend(values)
        assert found.goes_on, at
        assert found.per_s == pytest.approx(0.6 * MIB, rel=0.1)


def test_a_line_after_bursts_of_a_start_is_found_within_two_minutes() -> None:
    def values(count: int) -> list[float]:
        start = [index * 30.0 * MIB for index in range(10)] + [300.0 * MIB] * 15 + [435.0 * MIB] * 15
        return [*start, *((435 + index / 3) * MIB for index in range(count))]

    assert trend(values(110)).goes_on


def test_ranks_count_what_a_scatter_hides() -> None:
    assert signed_rank([1.0] * 10) == 2**-10
    assert signed_rank([0.0, 0.0, 0.0]) == 1.0
    assert signed_rank([-1.0, 1.0, -2.0, 2.0]) > 0.4


@FEW
@given(scales, st.floats(0.04, 0.5), st.integers(FEWEST_FAST, 60))
def test_fast_large_growth_needs_few_samples(base: float, share: float, count: int) -> None:
    values = [base * (1 + share * index) for index in range(count)]
    found = find_surge([float(index) for index in range(count)], values, limit=2.5 * values[-1])
    assert found is not None
    assert found.goes_on
    assert found.per_s == pytest.approx(base * share, rel=0.05)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("slow", lambda at: 100 + 0.1 * at),
        ("far from the limit", lambda at: 1 + 0.05 * at),
        ("slows down", lambda at: 100 * (1 - math.exp(-at / 15))),
        ("falls now and then", lambda at: 20 + (at % 10) * 5 + at),
        ("one step", lambda at: 20.0 if at < 15 else 90.0),
        ("has ended", lambda at: 20 + 5 * min(at, 14)),
    ],
)
def test_other_growth_needs_all_samples(name: str, size: Callable[[int], float]) -> None:
    values = [size(index) for index in range(40)]
    assert find_surge(list(range(40)), values, limit=150.0) is None, name
