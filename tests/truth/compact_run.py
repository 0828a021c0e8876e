"""Fills one compact buffer with env-like data in this process and prints what it takes: ``compact_run.py < CASE.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces


def rss() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Rss:"))


def space(body: dict[str, Any]) -> Any:
    if body["type"] == "dict":
        return spaces.Dict({key: space(sub) for key, sub in body["spaces"].items()})
    if body["type"] == "discrete":
        return spaces.Discrete(body["n"])
    high = 255 if body.get("dtype") == "uint8" else np.inf
    return spaces.Box(
        -high if high == np.inf else 0, high, tuple(body["shape"]), np.dtype(body.get("dtype", "float32"))
    )


class Stream:
    """Observations of one key for all envs; a stack moves on by a frame, and begins an episode with zeros."""

    def __init__(self, box: Any, n_envs: int, stack: int, rng: Any) -> None:
        self.box, self.stack, self.rng, self.n = box, stack, rng, n_envs
        self.now = np.zeros((n_envs, *box.shape), box.dtype)
        self.frames = box.shape[0] // stack

    def fresh(self, shape: tuple[int, ...]) -> Any:
        if self.box.dtype == np.uint8:
            return self.rng.integers(0, 256, shape, np.uint8)
        return self.rng.standard_normal(shape).astype(self.box.dtype)

    def step(self, begins: Any = None) -> Any:
        after = self.fresh(self.now.shape)
        if self.stack > 1:
            after[:, : -self.frames] = self.now[:, self.frames :]
        if begins is not None:
            after[~begins] = self.now[~begins]
            if self.stack > 1:
                after[begins, : -self.frames] = 0
        self.now = after
        return after


def run(case: dict[str, Any]) -> dict[str, Any]:
    from rlmem.sb3 import CompactReplayBuffer, CompactRolloutBuffer

    rng = np.random.default_rng(0)
    observed, acted = space(case["observation"]), space(case["action"])
    n, episode, stacks = case["n_envs"], case["episode"], case["stacks"]
    boxes = observed.spaces if isinstance(observed, spaces.Dict) else {"": observed}
    streams = {key: Stream(box, n, stacks.get(key, 1), rng) for key, box in boxes.items()}
    replay = "buffer_size" in case
    kind, size = (CompactReplayBuffer, case["buffer_size"]) if replay else (CompactRolloutBuffer, case["n_steps"])

    def whole(parts: dict[str, Any]) -> Any:
        return parts if isinstance(observed, spaces.Dict) else parts[""]

    def every(begins: Any = None) -> dict[str, Any]:
        return {key: stream.step(begins).copy() for key, stream in streams.items()}

    warm = kind(64, observed, acted, "cpu", n_envs=n)  # what is compiled and imported is not the buffer's
    del warm
    before = rss()
    buffer = kind(size, observed, acted, "cpu", n_envs=n, **case.get("options", {}))
    action = np.zeros((n, *acted.shape), acted.dtype)
    steps = buffer.buffer_size if not replay else buffer.buffer_size + buffer.buffer_size // 3
    rounds = 1 if replay else 2
    length = np.arange(n) * 7 % episode
    for _ in range(rounds):
        buffer.reset()
        obs = every(np.ones(n, bool))
        for _ in range(steps):
            length += 1
            done = length % episode == 0
            after = every()
            if replay:
                infos = [{"TimeLimit.truncated": bool(cut)} for cut in done]
                buffer.add(whole(obs), whole(after), action, np.ones(n), done, infos)
            else:
                buffer.add(whole(obs), action, np.ones(n), done, torch.zeros(n), torch.zeros(n))
            obs = every(done) if done.any() else after
    grown = rss() - before
    lines = {name: value.nbytes for name, value in vars(buffer).items() if isinstance(value, np.ndarray)}
    return {"nbytes": int(buffer.nbytes), "rss": grown, "lines": lines, "store": int(buffer._obs.store.nbytes)}


if __name__ == "__main__":
    print(json.dumps(run(json.load(sys.stdin))))
