"""Rows and what follows them: the same bits as two arrays, whatever is written in whatever order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmem.buffers import Rows

SIZE = 7
PLACES = st.one_of(
    st.integers(-SIZE, SIZE - 1),
    st.lists(st.integers(-SIZE, SIZE - 1), max_size=4),
    st.slices(SIZE),
    st.lists(st.booleans(), min_size=SIZE, max_size=SIZE).map(np.array),
)
#: Few values, so that rows are often equal; NaN and both zeros among them.
VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.0, float("nan")])


@given(st.lists(st.tuples(st.booleans(), PLACES, VALUES), max_size=40), st.sampled_from([(SIZE,), (SIZE, 2)]))
def test_two_arrays_and_rows_never_differ(writes: list[tuple[bool, Any, float]], shape: tuple[int, ...]) -> None:
    obs, after = np.zeros(shape), np.zeros(shape)
    rows = Rows(shape)
    for is_next, place, value in writes:
        one, other = (after, rows.next) if is_next else (obs, rows)
        if isinstance(place, list) and not place:
            continue
        one[place] = value
        other[place] = value
        for index in (place, slice(None), np.arange(SIZE), [-1, 0]):
            for plain, ours in ((obs, rows), (after, rows.next)):
                assert np.asarray(ours[index]).tobytes() == np.asarray(plain[index]).tobytes()
                assert np.shape(ours[index]) == np.shape(plain[index])


def filled(ends: int, steps: int, n_envs: int = 1) -> tuple[Rows, np.ndarray, np.ndarray]:
    """A ring written by some environments in turn, with episodes of so many steps."""
    rng = np.random.default_rng(0)
    rows = Rows((1000, 4, 8), "uint8")
    obs, after = np.zeros((1000, 4, 8), "uint8"), np.zeros((1000, 4, 8), "uint8")
    now = [rng.integers(0, 255, (4, 8), "uint8") for _ in range(n_envs)]
    for t in range(steps):
        env, at = t % n_envs, t % 1000
        then = rng.integers(0, 255, (4, 8), "uint8")
        obs[at] = rows[at] = now[env]
        after[at] = rows.next[at] = then
        now[env] = rng.integers(0, 255, (4, 8), "uint8") if (t // n_envs) % ends == ends - 1 else then
    return rows, obs, after


@pytest.mark.parametrize(("ends", "n_envs"), [(100, 1), (3, 1), (50, 4)])
def test_a_ring_gives_what_was_put_in(ends: int, n_envs: int) -> None:
    rows, obs, after = filled(ends, 2_700, n_envs)
    index = np.random.default_rng(1).integers(0, 1000, 256)
    assert np.array_equal(rows[index], obs[index])
    assert np.array_equal(rows.next[index], after[index])


def test_one_environment_needs_the_room_of_one_array() -> None:
    rows, obs, _ = filled(100, 2_700)
    assert rows.nbytes < 1.4 * obs.nbytes  # 32 bytes a row here, 8 of them for its place; room for 64 ends
    rows, obs, _ = filled(50, 600, n_envs=4)
    assert rows.nbytes > 2 * obs.nbytes, "rows of several environments in turn do not follow one another"


def test_an_index_of_several_axes_is_refused_with_another_way() -> None:
    rows = Rows((10, 4))
    with pytest.raises(TypeError, match=r"rows\[index\]\[\.\.\.\]"):
        rows[0, 1]
    with pytest.raises(IndexError):
        rows.next[10]
    with pytest.raises(IndexError):
        rows[10] = 1
