"""The tape: allocations, releases, and the largest moment of each phase."""

from __future__ import annotations

import time

import pytest

from rlmem.core.quantity import Quantity
from rlmem.model.tape import Tape


def size(nbytes: int) -> Quantity:
    return Quantity.of(nbytes, "size", "test")


def peaks(tape: Tape) -> dict[tuple[str, str], int]:
    return {(p.device, p.phase): p.expected_bytes for p in tape.ledger().peaks()}


def test_a_copy_that_lives_for_a_moment_counts_in_its_phase() -> None:
    tape = Tape()
    with tape.phase("build"):
        tape.alloc("store", size(100))
    with tape.phase("update"):
        tape.free(tape.alloc("copy", size(50)))
        tape.alloc("small", size(10))
    assert peaks(tape) == {("ram", "build"): 100, ("ram", "update"): 150}
    assert tape.ledger().only(phase="update").components == ("store", "copy")


def test_freeing_before_the_next_allocation_keeps_them_apart() -> None:
    tape = Tape()
    with tape.phase("update"):
        tape.free(tape.alloc("a", size(60)))
        tape.free(tape.alloc("b", size(70)))
    assert peaks(tape) == {("ram", "update"): 70}
    assert tape.ledger().components == ("b",)


def test_the_maximum_is_noted_before_the_release_that_ends_it() -> None:
    tape = Tape()
    with tape.phase("update"):
        a, b = tape.alloc("a", size(1)), tape.alloc("b", size(2))
        tape.free(a, b)
    assert peaks(tape) == {("ram", "update"): 3}


def test_reserved_memory_costs_nothing_until_it_fills() -> None:
    tape = Tape()
    with tape.phase("build"):
        block = tape.alloc("store", size(100), residency="reserved")
    with tape.phase("collect"):
        tape.fill(block)
    tape.settle(block)
    with tape.phase("update"):
        pass
    assert peaks(tape) == {("ram", "build"): 0, ("ram", "collect"): 100, ("ram", "update"): 100}
    residencies = [(e.phase, e.residency) for e in tape.ledger().entries]
    assert residencies == [("build", "reserved"), ("collect", "filling"), ("update", "resident")]


def test_filling_twice_counts_once_and_freeing_gives_all_back() -> None:
    tape = Tape()
    with tape.phase("collect"):
        block = tape.alloc("store", size(100), residency="reserved")
        tape.fill(block)
        tape.fill(block)
        tape.free(block)
    with tape.phase("update"):
        tape.alloc("other", size(1))
    assert peaks(tape) == {("ram", "collect"): 100, ("ram", "update"): 1}


def test_devices_have_their_own_largest_moments() -> None:
    tape = Tape()
    with tape.phase("update"):
        host = tape.alloc("host", size(10))
        tape.free(host)
        tape.alloc("card", size(7), device="vram")
    assert peaks(tape) == {("ram", "update"): 10, ("vram", "update"): 7}


def test_a_phase_played_twice_keeps_its_larger_moment() -> None:
    tape = Tape()
    for nbytes in (5, 9, 3):
        with tape.phase("update"):
            tape.free(tape.alloc("x", size(nbytes)))
    assert peaks(tape) == {("ram", "update"): 9}


def test_an_unknown_phase_and_a_double_release_are_mistakes() -> None:
    tape = Tape()
    with pytest.raises(ValueError, match="unknown phase"), tape.phase("lunch"):
        pass
    block = tape.alloc("x", size(1))
    tape.free(block)
    with pytest.raises(KeyError):
        tape.free(block)


def test_watched_blocks_have_a_largest_moment_of_their_own() -> None:
    tape = Tape(watch=("batch.",))
    with tape.phase("update"):
        tape.free(tape.alloc("batch.a", size(40)))
        store = tape.alloc("store", size(100))
        tape.free(tape.alloc("batch.b", size(5)))
        tape.free(store)
    assert [block.component for block in tape.watched_at_most("update", "ram")] == ["batch.a"]
    assert tape.ledger().components == ("store", "batch.b")
    assert tape.watched_at_most("collect", "ram") == []


def test_many_blocks_do_not_cost_the_square_of_their_number() -> None:
    tape = Tape()
    started = time.process_time()
    with tape.phase("update"):
        for _ in range(20_000):
            tape.alloc("kept", size(2))
            tape.free(tape.alloc("passing", size(1)))
    assert peaks(tape) == {("ram", "update"): 40_001}
    assert time.process_time() - started < 5
