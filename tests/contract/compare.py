"""The same to the bit: samples, rows and the state numpy's generator is left in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import DictReplayBuffer, ReplayBuffer

from contract.strategies import Plan
from contract.streams import Step, scribble


def _same_bytes(ours: np.ndarray, theirs: np.ndarray, where: str) -> None:
    assert ours.dtype == theirs.dtype, f"{where}: {ours.dtype} for {theirs.dtype}"
    assert ours.shape == theirs.shape, f"{where}: {ours.shape} for {theirs.shape}"
    if ours.tobytes() == theirs.tobytes():
        return
    width = max(int(np.prod(ours.shape[1:])), 1) * ours.itemsize
    pair = [np.frombuffer(array.tobytes(), np.uint8).reshape(-1, width) for array in (ours, theirs)]
    rows = np.flatnonzero((pair[0] != pair[1]).any(axis=1))
    first = rows[0]
    raise AssertionError(
        f"{where}: {len(rows)} of {len(ours)} rows differ, first {first}: {ours[first]} for {theirs[first]}"
    )


def assert_same(ours: Any, theirs: Any, where: str = "sample") -> None:
    """Same type, names, dtype, shape, device and bytes, however nested."""
    if theirs is None:
        assert ours is None, f"{where}: {ours!r} for None"
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), f"{where}: keys {list(ours)} for {list(theirs)}"
        for key, value in theirs.items():
            assert_same(ours[key], value, f"{where}[{key!r}]")
    elif isinstance(theirs, tuple):
        names = getattr(theirs, "_fields", range(len(theirs)))
        assert type(ours) is type(theirs), f"{where}: {type(ours)} for {type(theirs)}"
        for name, mine, other in zip(names, ours, theirs, strict=True):
            assert_same(mine, other, f"{where}.{name}")
    elif isinstance(theirs, th.Tensor):
        assert isinstance(ours, th.Tensor), f"{where}: {type(ours)} for a tensor"
        assert ours.device == theirs.device, f"{where}: {ours.device} for {theirs.device}"
        assert ours.dtype == theirs.dtype, f"{where}: {ours.dtype} for {theirs.dtype}"
        _same_bytes(ours.detach().numpy(), theirs.detach().numpy(), where)
    else:
        _same_bytes(np.asarray(ours), np.asarray(theirs), where)


def sampled(buffer: Any, batch: int, seed: int, env: Any = None) -> tuple[Any, float]:
    """A batch after seeding, and the next number drawn: the generator must be left where SB3 leaves it."""
    np.random.seed(seed)  # the one SB3's buffers use
    return buffer.sample(batch, env=env), np.random.random()


def assert_same_sample(ours: Any, theirs: Any, batch: int, seed: int = 0, env: Any = None) -> Any:
    """Sample both with the same seed; return our batch."""
    mine, my_next = sampled(ours, batch, seed, env)
    other, next_one = sampled(theirs, batch, seed, env)
    assert_same(mine, other)
    assert my_next == next_one, "numpy's generator was not used as SB3 uses it"
    return mine


def add(step: Step, *buffers: Any) -> None:
    """Give one step to each; what was given is overwritten afterwards."""
    for buffer in buffers:
        arguments = step.given()
        buffer.add(*arguments)
        scribble(arguments)


def fill(steps: Iterable[Step], *buffers: Any) -> list[Step]:
    """Give all steps to each; returns them."""
    kept = list(steps)
    for step in kept:
        add(step, *buffers)
    return kept


def assert_same_counters(ours: Any, theirs: Any) -> None:
    """Position, size and the small arrays agree."""
    assert (ours.pos, ours.full, ours.size(), ours.buffer_size) == (
        theirs.pos,
        theirs.full,
        theirs.size(),
        theirs.buffer_size,
    )
    for name in ("actions", "rewards", "dones", "timeouts"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        assert isinstance(mine, np.ndarray), name
        # flags may be kept in fewer bytes than SB3's float32
        assert_same(mine.astype(np.float32) if name in ("dones", "timeouts") else mine, other, name)


def assert_same_rows(ours: Any, theirs: Any) -> None:
    """The views read as SB3's arrays, rows never written included."""
    for name in ("observations", "next_observations"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        pairs = {key: (mine[key], other[key]) for key in other} if isinstance(other, dict) else {name: (mine, other)}
        for key, (view, array) in pairs.items():
            assert (view.shape, view.dtype, len(view)) == (array.shape, array.dtype, len(array)), key
            assert_same(np.asarray(view), array, f"{name} {key}")


def reference(plan: Plan) -> ReplayBuffer:
    """SB3's own buffer for the plan."""
    kind = DictReplayBuffer if isinstance(plan.observation_space, spaces.Dict) else ReplayBuffer
    return kind(**plan.common)
