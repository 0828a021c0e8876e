"""Threads sampling while one adds get whole transitions, or a clear refusal."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from contract.strategies import CODECS, box
from rlmem.errors import RlmemError
from rlmem.sb3 import CompactReplayBuffer

pytestmark = pytest.mark.truth

SECONDS, SHAPE = 0.4, (4, 6, 6)


def stack_of(number: int) -> np.ndarray:
    """Frames number-3 … number, each filled with its number: a torn stack shows."""
    frames = (np.arange(number - 3, number + 1) % 251).astype(np.uint8)
    return np.broadcast_to(frames[:, None, None], SHAPE)[None]


def torn(batch: Any, *, named: bool) -> str | None:
    """What does not belong together, if anything."""
    numbers = batch.rewards.flatten().long()
    for name, later in (("observations", 0), ("next_observations", 1)):
        part = getattr(batch, name)
        images = part["image"] if named else part
        expected = (numbers[:, None] - 3 + th.arange(4) + later) % 251
        if not (images.long() == expected[:, :, None, None]).all():
            return f"{name} of other transitions"
        if named and not (part["number"].flatten().long() == numbers + later).all():
            return f"{name} half of another transition"
    if not (batch.actions.flatten().long() == numbers % 5).all():
        return "actions of other transitions"
    return None


@pytest.mark.parametrize("size", [64, 5000])
@pytest.mark.parametrize("named", [False, True], ids=["box", "dict"])
@pytest.mark.parametrize("codec", CODECS)
def test_transitions_are_whole(codec: str, named: bool, size: int) -> None:
    image = box(SHAPE, "uint8")
    space = spaces.Dict({"image": image, "number": box((1,), "float32")}) if named else image
    buffer = CompactReplayBuffer(size, space, spaces.Discrete(5), device="cpu", codec=codec)
    problems: list[str] = []
    batches, stop = [0, 0], threading.Event()

    def observation(number: int) -> Any:
        return {"image": stack_of(number), "number": np.full((1, 1), number, np.float32)} if named else stack_of(number)

    def add(number: int) -> None:
        action, reward = np.array([number % 5]), np.array([number], np.float32)
        buffer.add(observation(number), observation(number + 1), action, reward, np.zeros(1), [{}])

    def sample(which: int) -> None:
        while not stop.is_set():
            try:
                found = torn(buffer.sample(32), named=named)
            except RlmemError:
                continue
            except Exception as problem:
                found = repr(problem)
            batches[which] += 1
            if found:
                problems.append(found)
                return

    add(0)
    threads = [threading.Thread(target=sample, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    until, number = time.monotonic() + SECONDS, 1
    while time.monotonic() < until and not problems:
        add(number)
        number += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert number > 50, "adding was kept waiting"
    assert all(batches), "sampling was kept waiting"
