"""Of a long container a part is looked at: what that stands for is near the truth, and the range has the truth in it."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlmem.agent.walk import Walk

ARRAY = 112  # the object around an array's values


class Episode:
    def __init__(self, length: int) -> None:
        self.steps = [block(400) for _ in range(length)]


def block(nbytes: float) -> Any:
    return np.zeros(int(nbytes), np.uint8)


def blocks(sizes: Any) -> tuple[list[Any], int]:
    made = [block(size) for size in sizes]
    return made, sum(each.nbytes + ARRAY + 8 for each in made)


def few_large() -> tuple[Any, int]:
    sizes = np.full(20_000, 100)
    sizes[[17, 5_003, 5_004, 19_999]] = 5_000_000
    return blocks(sizes)


def in_a_rhythm() -> tuple[Any, int]:
    return blocks([100 if n % 1000 else 100_000 for n in range(100_000)])


def uneven() -> tuple[Any, int]:
    return blocks(np.random.default_rng(0).lognormal(6, 1.5, 20_000))


def rising() -> tuple[Any, int]:
    return blocks(np.arange(10_000) * 0.5)


def queue() -> tuple[Any, int]:
    made, true = uneven()
    return collections.deque(made, maxlen=30_000), true


def table() -> tuple[Any, int]:
    made, true = uneven()
    found = dict(enumerate(made))
    return found, true - 8 * len(made) + 32 * len(made) + sys.getsizeof(found)


def shared() -> tuple[Any, int]:
    seen = [block(2_000) for _ in range(5_001)]
    found = [(seen[n], 1, 0.5, seen[n + 1], False) for n in range(5_000)]
    return found, 5_001 * (2_000 + ARRAY) + 5_000 * (8 + sys.getsizeof(found[0]))


def episodes() -> tuple[Any, int]:
    found = [Episode(int(length)) for length in np.random.default_rng(1).integers(1, 60, 2_000)]
    return found, sum(len(each.steps) for each in found) * (400 + ARRAY + 8) + 2_000 * 250


CASES = [few_large, in_a_rhythm, uneven, rising, queue, table, shared, episodes]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_long_container_is_reckoned_from_a_part_with_a_range(case: Callable[[], tuple[Any, int]]) -> None:
    thing, true = case()
    walk = Walk(seconds=30).run([("thing", thing)])
    assert walk.complete
    (row,) = (row for row in walk.rows() if row["path"] == "thing")
    found = row["nbytes"] + row["small"] + row["medium"]
    assert row["estimated"]
    assert found == pytest.approx(true, rel=0.1)
    assert found - row["less"] <= true <= found + row["more"]
    assert 0 < row["less"] <= row["more"] < 0.3 * found
