"""A forked process has a buffer of its own."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytestmark = pytest.mark.truth
spaces = pytest.importorskip("gymnasium.spaces")
pytest.importorskip("stable_baselines3")

from rlmem.sb3 import CompactReplayBuffer  # noqa: E402  # after what has to be there


def fill(buffer: CompactReplayBuffer, value: float, steps: int) -> None:
    obs = np.full((1, 30), value, np.float32)
    for step in range(steps):
        buffer.add(obs + step, obs + step + 1, np.zeros((1, 1)), np.zeros(1), np.zeros(1, bool), [{}])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python warns of forking beside threads: that is the point
@pytest.mark.parametrize("codec", ["none", "zstd", "huffman"])
def test_what_a_fork_adds_stays_with_it(codec: str) -> None:
    space = spaces.Box(-1, 1, (30,), np.float32)
    buffer = CompactReplayBuffer(1000, space, spaces.Box(-1, 1, (1,)), device="cpu", codec=codec)
    fill(buffer, 1, 600)
    before = np.asarray(buffer.observations).copy()
    child = os.fork()
    if not child:
        fill(buffer, 7, 900)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(before, np.asarray(buffer.observations))
