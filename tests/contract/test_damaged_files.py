"""A file cut short or changed by one byte is refused; data is never silently wrong."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from contract.compare import assert_same_rows, assert_same_sample, fill, reference
from contract.strategies import Plan, box
from contract.streams import Pace
from rlmem.errors import RlmemError
from rlmem.sb3 import CompactReplayBuffer

pytestmark = pytest.mark.truth

PLAN = Plan(
    observation_space=spaces.Dict({"image": box((3, 8, 8), "uint8"), "vector": box((5,), "float32")}),
    action_space=spaces.Box(-1, 1, (2,), np.float32),
    n_envs=2,
    buffer_size=300,
    steps=450,
    seed=4,
    pace=Pace(),
    contents={"image": "walk"},
)


@pytest.fixture(params=["none", "zstd", "huffman"])
def filled(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    ours, theirs = CompactReplayBuffer(**PLAN.common, codec=request.param), reference(PLAN)
    fill(PLAN.play(), ours, theirs)
    return ours, theirs


def places(size: int, count: int) -> list[int]:
    """Both ends byte by byte, and places in between."""
    rng = np.random.default_rng(size)
    ends = [*range(24), *range(size - 24, size)]
    return sorted({*ends, *(int(place) for place in rng.integers(0, size, count))})


def flipped(whole: bytes, place: int, bit: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :]


def refused(path: Path) -> str:
    with pytest.raises(RlmemError) as caught:
        CompactReplayBuffer.load(path)
    return str(caught.value)


def test_a_file_cut_short_is_refused(filled: tuple[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    filled[0].save(path)
    whole = path.read_bytes()
    for size in (0, 1, 7, 8, 64, len(whole) // 3, len(whole) // 2, len(whole) - 100, len(whole) - 8, len(whole) - 1):
        path.write_bytes(whole[:size])
        message = refused(path)
        assert str(path) in message and "\n" not in message


def test_a_file_with_more_at_its_end_is_refused(filled: tuple[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    filled[0].save(path)
    path.write_bytes(path.read_bytes() + b"\0")
    refused(path)


def test_a_flipped_bit_is_refused_wherever_it_is(filled: tuple[Any, Any], tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    filled[0].save(path)
    whole = path.read_bytes()
    for place in places(len(whole), 60):
        path.write_bytes(flipped(whole, place, place % 8))
        assert "\n" not in refused(path), place
    path.write_bytes(whole)
    assert_same_rows(CompactReplayBuffer.load(path), filled[1])


def test_a_stretch_of_zeros_is_refused(filled: tuple[Any, Any], tmp_path: Path) -> None:
    """What a crashed file system leaves."""
    path = tmp_path / "buffer"
    filled[0].save(path)
    whole = path.read_bytes()
    for start in range(0, len(whole), max(1, len(whole) // 6)):
        changed = whole[:start] + bytes(min(4096, len(whole) - start)) + whole[start + 4096 :]
        if changed != whole:
            path.write_bytes(changed)
            refused(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x80\x04N.", b"PK\x03\x04" + bytes(100)])
def test_other_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "buffer"
    path.write_bytes(content)
    assert str(path) in refused(path)


def test_restoring_from_a_damaged_file_does_not_spoil_the_buffer(filled: tuple[Any, Any], tmp_path: Path) -> None:
    ours, theirs = filled
    path = tmp_path / "buffer"
    ours.save(path)
    whole = path.read_bytes()
    for place in places(len(whole), 4)[::9]:
        path.write_bytes(flipped(whole, place, 3))
        with pytest.raises(RlmemError):
            ours.restore(path)
        assert_same_sample(ours, theirs, 50, seed=place)
    assert_same_rows(ours, theirs)


def test_a_damaged_pickle_is_refused_or_harmless(filled: tuple[Any, Any]) -> None:
    """``save_replay_buffer`` pickles: Python notices some damage, the buffer must notice the rest."""
    ours, theirs = filled
    whole = pickle.dumps(ours)
    silent = 0
    for place in places(len(whole), 120):
        try:
            again = pickle.loads(flipped(whole, place, place % 8))
            again.sample(1)
        except Exception:  # pickle raises anything
            continue
        silent += 1
        assert_same_sample(again, theirs, 50, seed=place)
        assert_same_rows(again, theirs)
    assert silent < 120
