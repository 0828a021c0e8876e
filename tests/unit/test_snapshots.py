"""A snapshot from inside, and the difference of two."""

from __future__ import annotations

import numpy as np

from rlmem import snapshot
from rlmem.snapshots import Snapshot


def test_a_snapshot_names_local_variables_and_adds_up() -> None:
    table = np.ones(3_000_000)
    taken = snapshot()
    assert isinstance(taken, Snapshot)
    held = {each.path: each.resident_bytes for each in taken.found.holdings}
    assert held["table"] == table.nbytes
    found = taken.found
    assert (
        found.named_bytes + sum(each.resident_bytes for each in found.portions) + found.unexplained_bytes
        == taken.rss_bytes
    )
    assert "table" in str(taken)


def test_the_difference_names_what_grew() -> None:
    kept: list[np.ndarray] = []  # type: ignore[type-arg]
    before = snapshot()
    kept += [np.ones(100_000) for _ in range(20)]
    change = next(each for each in snapshot() - before if each.path == "kept")
    assert 15_000_000 < change.nbytes < 18_000_000


def test_two_alike_differ_by_little() -> None:
    snapshot()  # what the walk itself needs is there from now on
    first = snapshot()
    change = sum(each.nbytes for each in snapshot() - first)
    assert abs(change) < 8_000_000 + 0.1 * first.rss_bytes
