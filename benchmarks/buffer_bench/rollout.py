"""A PPO rollout of handheld-game frames: the peak of filling the buffer and passing over it in batches."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from buffer_bench.memory import restart_peak, settle, status
from buffer_bench.replay import differs

HEIGHT, WIDTH, TILE, STACK, ENVS = 144, 160, 8, 4, 2
#: PPO's default. The loop holds two batches at a time, which count in the peak of every store alike.
BATCH = 64
SHAPE = (3 * STACK, HEIGHT, WIDTH)
#: name → label, what pip calls it, the module and class, arguments. The first is what the others are compared with.
ROWS: dict[str, tuple[str, str, tuple[str, str], dict[str, Any]]] = {
    "sb3": ("SB3", "stable-baselines3", ("stable_baselines3.common.buffers", "RolloutBuffer"), {}),
    "rlmem": ("rlmem", "rlmem", ("rlmem.sb3", "CompactRolloutBuffer"), {}),
    "rlmem-auto": ("rlmem, codec=auto", "rlmem", ("rlmem.sb3", "CompactRolloutBuffer"), {"codec": "auto"}),
    "rlmem-lz4": ("rlmem, codec=lz4", "rlmem", ("rlmem.sb3", "CompactRolloutBuffer"), {"codec": "lz4"}),
    "rlmem-zstd": ("rlmem, codec=zstd", "rlmem", ("rlmem.sb3", "CompactRolloutBuffer"), {"codec": "zstd"}),
    "extra-lz4-frame": ("sb3-extra, LZ4 frame", "sb3-extra-buffers",
                        ("sb3_extra_buffers.compressed", "CompressedRolloutBuffer"),
                        {"compression_method": "lz4-frame"}),
}  # fmt: skip


class Game:
    """A walk over a map of 8×8 tiles with four colours each, other walkers, and now and then a text box."""

    def __init__(self, seed: int, steps: int) -> None:
        rng = np.random.default_rng(seed)
        tiles = rng.integers(0, 4, (24, TILE, TILE))
        tiles[:12] = np.sort(tiles[:12].reshape(12, -1), axis=1).reshape(12, TILE, TILE)  # half of them are calm
        colours = rng.integers(40, 255, (24, 4, 3)).astype(np.uint8)
        plan = np.repeat(np.repeat(rng.integers(0, 24, (40, 40)), 2, 0), 2, 1)
        painted = colours[np.arange(24)[:, None, None], tiles]
        world = painted[plan].swapaxes(1, 2).reshape(80 * TILE, 80 * TILE, 3)
        # Twice over, so that a view near the edge needs no wrapping.
        self.world = np.ascontiguousarray(np.tile(world, (2, 2, 1)).transpose(2, 0, 1))
        self.sprites = rng.integers(0, 255, (2, 3, 16, 16)).astype(np.uint8)
        moves = np.array([(0, 4), (4, 0), (0, -4), (-4, 0), (0, 0)])
        going = np.repeat(rng.integers(0, 5, steps // 12 + 2), 12)[: steps + 1]
        self.place = np.cumsum(moves[going], axis=0) % (80 * TILE)
        self.walkers = rng.integers(0, 120, (5, 2))
        self.talking = np.repeat(rng.random(steps // 40 + 2) < 0.15, 40)[: steps + 1]
        ends = np.flatnonzero(rng.random(steps + 1) < 1 / 600)
        starts = np.concatenate([[0], ends])
        self.first = starts[np.searchsorted(starts, np.arange(steps + 1), side="right") - 1]

    def paint(self, step: int, out: np.ndarray) -> None:
        """One frame."""
        y, x = self.place[step]
        out[:] = self.world[:, y : y + HEIGHT, x : x + WIDTH]
        sprite = self.sprites[step // 4 % 2]
        out[:, 64:80, 72:88] = sprite
        for row, column in (self.walkers + (step // 2 * np.array([[0, 1], [1, 0], [0, 2], [2, 0], [1, 1]]))) % 128:
            out[:, row : row + 16, column : column + 16] = sprite[::-1]
        if self.talking[step]:
            out[:, 104:] = 248
            out[:, 112:136:8, 8 : 8 + step % 40 * 3] = 8

    def stack(self, step: int, out: np.ndarray) -> None:
        """The last frames of the episode, oldest first, zeros before its start."""
        for place in range(STACK):
            at = step - STACK + 1 + place
            if at < self.first[step]:
                out[3 * place : 3 * place + 3] = 0
            else:
                self.paint(at, out[3 * place : 3 * place + 3])


class RolloutSession:
    """Answers the parent's commands."""

    def __init__(self, *, store: str, capacity: int, seed: int, **_: Any) -> None:
        import importlib

        from gymnasium import spaces

        _, _, (module, name), self.options = ROWS[store]
        self.cls = getattr(importlib.import_module(module), name)
        self.spaces = (spaces.Box(0, 255, SHAPE, np.uint8), spaces.Discrete(8))
        self.steps = capacity // ENVS
        self.games = [Game(seed + number, self.steps) for number in range(ENVS)]
        np.random.seed(seed)  # SB3 draws from the global generator

    def _fill(self, steps: int) -> tuple[Any, float]:
        import torch

        buffer = self.cls(steps, *self.spaces, device="cpu", n_envs=ENVS, **self.options)
        spent = 0.0
        for step in range(steps):
            obs = np.empty((ENVS, *SHAPE), np.uint8)
            for game, out in zip(self.games, obs, strict=True):
                game.stack(step, out)
            # The log-probability says which transition it is.
            number = torch.arange(step * ENVS, (step + 1) * ENVS, dtype=torch.float32)
            starts = np.array([game.first[step] == step for game in self.games], np.float32)
            start = time.perf_counter()
            buffer.add(obs, np.zeros((ENVS, 1), np.int64), np.ones(ENVS, np.float32), starts, number * 0, number)
            spent += time.perf_counter() - start
        buffer.compute_returns_and_advantage(torch.zeros(ENVS), np.zeros(ENVS, bool))
        return buffer, spent

    def _pass(self, buffer: Any) -> float:
        start = time.perf_counter()
        for batch in buffer.get(BATCH):
            batch.observations[:, 0, 0, 0].sum()  # what a network would read; its own memory is not the buffer's
        return time.perf_counter() - start

    def measure(self) -> dict[str, Any]:
        """Fill and pass, and the peak of both; then a pass that checks every observation."""
        buffer, _ = self._fill(64)
        self._pass(buffer)
        del buffer
        settle()
        restart_peak()
        before = status("VmRSS")
        buffer, fill_s = self._fill(self.steps)
        settle()
        filled, fill_peak = status("VmRSS"), status("VmHWM")
        restart_peak()
        first_s = self._pass(buffer)
        peak = status("VmHWM")
        again_s = self._pass(buffer)
        peak = max(peak, status("VmHWM"))
        wrong, seen = 0, set()
        for batch in buffer.get(BATCH):
            number = batch.old_log_prob.numpy().ravel().astype(np.int64)
            truth = np.empty((len(number), *SHAPE), np.uint8)
            for each, out in zip(number, truth, strict=True):
                self.games[each % ENVS].stack(int(each // ENVS), out)
            wrong += int(differs(batch.observations.numpy(), truth).sum())
            seen.update(number.tolist())
        return {
            "buffer_bytes": filled - before,
            "fill_peak_bytes": fill_peak - before,
            "peak_bytes": peak - before,
            "stock_bytes": int(np.prod(SHAPE)) * self.steps * ENVS,
            "batch_bytes": int(np.prod(SHAPE)) * BATCH,
            "fill_s": fill_s,
            "pass_s": first_s,
            "again_s": again_s,
            "obs_wrong": wrong,
            "missing": self.steps * ENVS - len(seen),
        }
