"""Compact stores as arithmetic: units in blocks, tables beside them, and what data changes about it."""

from __future__ import annotations

import pytest

from rlmem.core.quantity import Quantity
from rlmem.model.compact import Compact, Key, per_transition, raw_block, segment_bytes

ENDS = Quantity.of(1_000, "episode ends", "test", low=0, high=4_000)
IMAGE = Key(name="observations[image]", obs_bytes=21_168, why="test")
VECTOR = Key(name="observations[vector]", obs_bytes=124, why="test")


def store(*keys: Key, rows: int = 50_000, n_envs: int = 4, ends: Quantity | None = ENDS, **more: Quantity) -> Compact:
    return Compact(
        rows=Quantity.of(rows, "rows", "test"),
        n_envs=Quantity.of(n_envs, "n_envs", "test"),
        ends=ends,
        keys=keys,
        **more,
    )


def size(found: Compact, name: str) -> Quantity:
    return next(array.amount for array in found.arrays() if array.name == name)


@pytest.mark.parametrize(
    ("unit", "rows", "block"),
    [(21_168, 50_000, 24), (124, 50_000, 390), (124, 10**6, 1024), (300_000, 10_000, 1), (8, 40, 5)],
)
def test_a_block_is_512_kib_at_most_and_small_beside_the_buffer(unit: int, rows: int, block: int) -> None:
    assert raw_block(unit, rows) == block


def test_blocks_are_rounded_to_lines() -> None:
    assert (segment_bytes(1), segment_bytes(64), segment_bytes(4097), segment_bytes(8192)) == (64, 64, 4160, 8192)


def test_one_observation_a_transition_and_one_more_an_episode() -> None:
    amount = size(store(IMAGE), "observations[image]")
    blocks = (200_000 + 1_000) // 24 + 4 * 2
    assert amount.value == blocks * segment_bytes(24 * 21_168)
    assert amount.low == (200_000 // 24 + 4) * segment_bytes(24 * 21_168)
    assert "episode ends" in amount.formula


def test_a_rollout_has_no_next_observations_and_so_no_episode_ends() -> None:
    assert "ends" not in size(store(IMAGE, ends=None), "observations[image]").formula


def test_a_stack_keeps_a_frame_a_step_and_two_bytes_beside_it() -> None:
    stack = Key(name="observations", obs_bytes=28_224, why="test", depth=4)
    whole, frames = (
        size(store(key), "observations").value for key in (Key(name="observations", obs_bytes=28_224, why=""), stack)
    )
    assert frames == pytest.approx(whole / 4, rel=0.02)
    marks = [term for term in size(store(stack), "tables").terms if term.name.startswith("mark")]
    assert [term.value for term in marks] == [2]


def test_a_key_that_never_changes_costs_no_more_than_the_blocks_being_written() -> None:
    constant = Key(name="observations", obs_bytes=21_168, why="test", constant=True)
    assert size(store(constant), "observations").high <= 4 * 3 * segment_bytes(24 * 21_168)


def test_a_coded_key_takes_what_the_sample_says_with_its_range() -> None:
    coded = Key(
        name="observations",
        obs_bytes=21_168,
        why="test",
        coded=Quantity.of(5_000, "coded", "sample", low=4_000, high=7_000),
    )
    amount = size(store(coded), "observations")
    assert amount.value == pytest.approx(201_000 * 5_000, rel=0.01)
    assert amount.low == pytest.approx(200_000 * 4_000, rel=0.01)
    assert amount.high == pytest.approx(204_000 * 7_000, rel=0.01)


def test_a_codec_without_data_is_planned_as_none_and_may_save_everything() -> None:
    unknown = Key(name="observations[image]", obs_bytes=21_168, why="test", unknown=True)
    amount, plain = (size(store(key), "observations[image]") for key in (unknown, IMAGE))
    assert (amount.low, amount.value, amount.high) == (0, plain.value, plain.high)
    assert any("not known without data" in term.origin for term in amount.terms)


def test_a_budget_is_what_stays_in_ram_of_all_keys_together() -> None:
    budget = Quantity.of(10**9, "spill_budget", "test")
    arrays = store(IMAGE, VECTOR, budget=budget).arrays()
    assert [array.name for array in arrays] == ["observations", "tables"]
    assert arrays[0].amount.value == 10**9
    assert len(store(VECTOR, budget=budget).arrays()) == 2
    assert size(store(VECTOR, budget=budget), "observations[vector]").value < 10**9


def test_bytes_a_transition_are_those_of_all_arrays() -> None:
    found = store(IMAGE, VECTOR)
    low, expected, high = per_transition(found.arrays(), found.slots)
    assert low < expected < high
    assert expected == pytest.approx(21_292, rel=0.03)
