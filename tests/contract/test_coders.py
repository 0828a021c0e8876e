"""Every coder and transform gives back the bytes it was given, and no others, whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.truth
pytest.importorskip("numba")

from numba import carray, int64  # noqa: E402  # after what has to be there

from rlmem.buffers import codec, huffman, sparse  # noqa: E402
from rlmem.buffers.choose import count_transformed, pixel_masks, references  # noqa: E402
from rlmem.buffers.codec import Encoder, Method, Worker, unpacked  # noqa: E402
from rlmem.buffers.layout import Layout  # noqa: E402
from rlmem.buffers.models import REFERENCE, TABLE, Models  # noqa: E402
from rlmem.buffers.native import at, compiled  # noqa: E402

GUARD = 64


@compiled(int64(int64, int64, int64, int64, int64, int64[::1], int64, int64))
def undo(place: int, mask: int, model: int, address: int, size: int, g: Any, target: int, worker: int) -> int:
    work = carray(at(worker), (codec.WORK,), np.int64)
    if not mask & codec.SPARSE:
        return 1 if codec.decode(place, mask, model, address, size, g, target, work) else 0
    runs, end, before = address, address + size, model
    if place != codec.STORED:
        runs = work[codec.RUNS]
        got = unpacked(place, address, size, runs, g[codec.K] * g[codec.UNIT] // 2, work)
        if got <= 0:
            return 0
        end = runs + got
    for n in range(g[codec.K]):
        runs = sparse.follow(target + n * g[codec.UNIT], before, g[codec.UNIT], runs, end)
        if not runs:
            return 0
        before = target + n * g[codec.UNIT]
    return 1


def place_of(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def data(rng: np.random.Generator, kind: str, units: int, size: int) -> np.ndarray:
    """Units of noise, of small steps, of a picture that hardly changes, or all the same."""
    if kind == "noise":
        return rng.integers(0, 256, (units, size)).astype(np.uint8)
    if kind == "steps":
        return np.cumsum(rng.integers(-2, 3, (units, size)), axis=1).astype(np.uint8)
    still = np.tile(rng.integers(0, 256, size).astype(np.uint8), (units, 1))
    if kind == "moving":
        for unit in still:
            start = int(rng.integers(0, size))
            unit[start : start + 9] = rng.integers(0, 256, unit[start : start + 9].size)
    return still


KINDS = ("noise", "steps", "moving", "still")


@given(
    kind=st.sampled_from(KINDS),
    shape=st.sampled_from(((40,), (9, 7), (3, 12, 11), (12, 11, 3), (13, 5, 4), (17, 3, 2), (84, 84), (5, 400))),
    block=st.sampled_from((1, 2, 5, 8)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(deadline=None)
def test_what_is_coded_comes_back(kind: str, shape: tuple[int, ...], block: int, seed: int) -> None:
    rng, size = np.random.default_rng(seed), int(np.prod(shape))
    layout = Layout(shape=shape, dtype=np.dtype(np.uint8), block=block)
    units = data(rng, kind, block, size)
    encoder, worker, models, geometry = Encoder(block * size), Worker(block * size, 2), Models(), layout.geometry(1)
    methods = [
        Method(place=place, mask=mask) for place in (codec.LZ4, codec.ZSTD) for mask in (0, codec.TIME, codec.SPARSE)
    ]
    methods += [Method(place=codec.STORED, mask=codec.SPARSE)]
    methods += [Method(place=codec.HUFFMAN, mask=mask) for mask in pixel_masks(layout)]
    for method in methods:
        model = 0
        if method.place == codec.HUFFMAN:
            counts = np.zeros(256, np.int64)
            count_transformed(encoder, place_of(units), geometry, method.mask, counts)
            model = models.address(models.add(TABLE, huffman.code_lengths(counts)))
        elif method.mask & codec.SPARSE:
            model = models.address(models.add(REFERENCE, list(references(units))[int(rng.integers(2))]))
        got = encoder.encode(place_of(units), geometry, method, model)
        if not got:
            assert method.mask & codec.SPARSE  # the runs take more than half a block: it is left as it is
            continue
        coded = np.zeros(got + codec.SLACK, np.uint8)
        coded[:got] = encoder.output[:got]
        back = np.full(block * size + GUARD, 0xA5, np.uint8)
        call = method.place, method.mask, model
        assert undo(*call, place_of(coded), got, geometry, place_of(back), worker.address), method.name
        assert np.array_equal(back[: block * size].reshape(units.shape), units), method.name
        assert (back[block * size :] == 0xA5).all(), method.name


@pytest.mark.parametrize("method", [Method(place=codec.HUFFMAN), Method(place=codec.STORED, mask=codec.SPARSE)])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_block_stays_inside_its_bounds(method: Method, kind: str) -> None:
    """It is refused, or comes out as other bytes; nothing beside the target is written."""
    rng, layout = np.random.default_rng(3), Layout(shape=(700,), dtype=np.dtype(np.uint8), block=4)
    units, encoder, worker, geometry = data(rng, kind, 4, 700), Encoder(2800), Worker(2800, 2), layout.geometry(1)
    counts, models = np.bincount(units.reshape(-1), minlength=256), Models()
    table, zeros = (TABLE, huffman.code_lengths(counts)), (REFERENCE, np.zeros(700, np.uint8))
    model = models.address(models.add(*(table if method.place == codec.HUFFMAN else zeros)))
    got = encoder.encode(place_of(units), geometry, method, model)
    if not got:
        pytest.skip("too much changes for runs")
    refused = 0
    for _ in range(300):
        coded = np.zeros(got + codec.SLACK, np.uint8)
        coded[:got] = encoder.output[:got]
        for _ in range(int(rng.integers(1, 4))):
            coded[rng.integers(0, got)] ^= 1 << rng.integers(0, 8)
        back = np.full(2800 + 2 * GUARD, 0xA5, np.uint8)
        call = method.place, method.mask, model, place_of(coded), got
        refused += not undo(*call, geometry, place_of(back) + GUARD, worker.address)
        assert (back[:GUARD] == 0xA5).all()
        assert (back[-GUARD:] == 0xA5).all()
    if method.place == codec.HUFFMAN and kind != "still":
        assert refused


@given(counts=st.lists(st.integers(0, 10**6), min_size=256, max_size=256))
@settings(deadline=None)
def test_codes_fill_their_table_exactly(counts: list[int]) -> None:
    lengths = huffman.code_lengths(np.array(counts))
    assert lengths.min() >= 1
    assert lengths.max() <= huffman.LONGEST
    assert sum(2.0 ** -int(length) for length in lengths) == 1
    assert huffman.coded_bytes(np.array(counts), lengths) >= huffman.least_bytes(np.array(counts)) - 1e-6
