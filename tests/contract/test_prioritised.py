"""Prioritised sampling: drawn in proportion, and still so after a change of capacity."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.truth
spaces = pytest.importorskip("gymnasium.spaces")
pytest.importorskip("stable_baselines3")

from rlmem.errors import UsageError  # noqa: E402  # after what has to be there
from rlmem.sb3 import CompactReplayBuffer  # noqa: E402


def made(size: int = 64, **options: object) -> CompactReplayBuffer:
    space = spaces.Box(-1, 1, (3,), np.float32)
    return CompactReplayBuffer(size, space, space, device="cpu", n_envs=2, prioritized=True, **options)


def fill(buffer: CompactReplayBuffer, steps: int) -> None:
    rng = np.random.default_rng(0)
    for _ in range(steps):
        obs, after, action = rng.random((3, 2, 3), dtype=np.float32)
        buffer.add(obs, after, action, np.zeros(2), np.zeros(2, bool), [{}, {}])


def test_transitions_are_drawn_in_proportion_to_their_priorities() -> None:
    buffer = made(alpha=1.0, beta=1.0)
    fill(buffer, 32)
    buffer.update_priorities(np.arange(64), np.arange(64, dtype=float))
    np.random.seed(0)
    drawn = np.bincount(np.concatenate([buffer.sample(256).indices for _ in range(200)]), minlength=64)
    expected = np.arange(64) / np.arange(64).sum() * drawn.sum()
    assert np.abs(drawn - expected).max() < 6 * np.sqrt(expected.max())


def test_weights_make_up_for_it_and_are_at_most_one() -> None:
    buffer = made(alpha=1.0, beta=1.0)
    fill(buffer, 32)
    buffer.update_priorities(np.arange(64), np.where(np.arange(64) < 32, 1.0, 4.0))
    sample = buffer.sample(256)
    weights = sample.weights.numpy().ravel()
    assert weights.max() == 1.0
    assert np.allclose(weights[sample.indices >= 32], 0.25, atol=1e-3)


@pytest.mark.parametrize("size", [5000, 10, 64])
def test_priorities_move_with_the_transitions(size: int) -> None:
    buffer = made(alpha=1.0)
    fill(buffer, 50)
    newest = (np.arange(buffer.pos - 5, buffer.pos) * 2) % 64
    buffer.update_priorities(np.arange(64), np.zeros(64))
    buffer.update_priorities(newest, np.full(5, 1e6))
    rewards = np.arange(64, dtype=np.float32).reshape(32, 2)
    buffer.rewards[:] = rewards
    buffer.resize(size)
    drawn = set(np.unique(buffer.sample(256).rewards.numpy()))
    assert drawn <= set(rewards.ravel()[newest])
    fill(buffer, 4000)
    assert buffer.sample(64).indices.max() < buffer.buffer_size * 2


def test_bad_priorities_are_refused() -> None:
    buffer = made()
    fill(buffer, 4)
    for indices, values in (([1], [-1.0]), ([1], [np.nan]), ([64], [1.0]), ([1, 2], [1.0])):
        with pytest.raises(UsageError):
            buffer.update_priorities(np.array(indices), np.array(values))
