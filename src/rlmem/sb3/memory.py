"""Memory in the model's own logger: scalars for TensorBoard, CSV or the terminal, at next to no cost."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback

from rlmem.agent import proc
from rlmem.errors import UsageError
from rlmem.runner.guarding import Policy, ram_load
from rlmem.units import MIB
from rlmem.watch.sampling import Watch

if TYPE_CHECKING:
    from rlmem.core.moments import Moment
    from rlmem.guards import ProcessGuard

#: Reading which pages of a buffer are resident may take this share of the time, and no more.
RESIDENT_SHARE = 0.001
#: Growth is told over this many seconds.
GROWTH_SECONDS = 60.0


class MemoryCallback(BaseCallback):
    """Logs what the run holds, once every ``interval_s``, under ``prefix/``; calls a guard's ``check()`` at every step.

    ``rss_mib`` and ``peak_mib`` are of this process, ``tree_mib`` is with its children, shared pages once;
    ``growth_mib_per_minute`` is that of the tree; ``limit_share`` is how much of the limit is used, from 0 to 1. For each
    buffer: ``reserved_mib``, ``resident_mib`` and its ``fill`` from 0 to 1. On CUDA: ``vram_allocated_mib`` and
    ``vram_reserved_mib``.

    >>> model.learn(1_000_000, callback=MemoryCallback())  # doctest: +SKIP
    """

    def __init__(
        self,
        prefix: str = "memory",
        interval_s: float = 1.0,
        guard: ProcessGuard | None = None,
        *,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if interval_s <= 0:
            raise UsageError(f"interval_s={interval_s:g} must be above 0")
        self._prefix, self._interval, self._guard = prefix, interval_s, guard
        self._next = 0.0
        self._looks: Watch | None = None
        self._past: list[tuple[float, int]] = []
        self._resident: dict[str, int] = {}
        self._resident_due = 0.0

    def _on_training_start(self) -> None:
        """The first look takes 20 ms (limits, GPUs): before the first step, so that none of them waits for it."""
        if self._guard is None and self._looks is None:
            self._looks = Watch(pids=[os.getpid()], interval_s=max(1.0, self._interval), owners=False)
        now = time.perf_counter()
        self._next = now + self._interval
        self._record(now)

    def _on_step(self) -> bool:
        if self._guard is not None:
            self._guard.check()
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + self._interval
            self._record(now)
        return True

    def _record(self, now: float) -> None:
        moment = self._moment()
        own = proc.status() or {}
        scalars: dict[str, float] = {
            "rss_mib": own.get("VmRSS", 0) / MIB,
            "peak_mib": own.get("VmHWM", 0) / MIB,
        }
        if moment is not None:
            scalars["tree_mib"] = moment.tree_bytes / MIB
            scalars["growth_mib_per_minute"] = self._growth(now, moment.tree_bytes) / MIB
            load = self._guard.load if self._guard is not None else ram_load(Policy(), moment)
            if load is not None:
                scalars["limit_share"] = load.share
        for name, buffer in self._buffers():
            scalars |= {f"{name}/{key}": value for key, value in self._buffer(name, buffer, now).items()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            scalars["vram_allocated_mib"] = torch.cuda.memory_allocated() / MIB
            scalars["vram_reserved_mib"] = torch.cuda.memory_reserved() / MIB
        for key, value in scalars.items():
            self.logger.record(f"{self._prefix}/{key}", value)

    def _moment(self) -> Moment | None:
        if self._looks is None:
            return self._guard.moment if self._guard is not None else None
        return self._looks.sample()

    def _growth(self, now: float, nbytes: int) -> float:
        """Bytes a minute, over the last minute or what there is of it."""
        self._past.append((now, nbytes))
        while now - self._past[0][0] > GROWTH_SECONDS:
            self._past.pop(0)
        begin, before = self._past[0]
        return (nbytes - before) / (now - begin) * 60 if now - begin >= self._interval else 0.0

    def _buffers(self) -> Iterator[tuple[str, Any]]:
        for name in ("replay_buffer", "rollout_buffer"):
            buffer = getattr(self.model, name, None)
            if buffer is not None:
                yield name, buffer

    def _buffer(self, name: str, buffer: Any, now: float) -> dict[str, float]:
        compact = type(buffer).__module__.startswith("rlmem.")  # these keep their own books
        arrays = list(_arrays(buffer))
        reserved = getattr(buffer, "reserved_nbytes", buffer.nbytes) if compact else sum(a.nbytes for a in arrays)
        if now >= self._resident_due or name not in self._resident:
            begin = time.perf_counter()
            self._resident[name] = buffer.nbytes if compact else sum(_resident(array) for array in arrays)
            # Gigabytes have millions of pages: the more they take to read, the more seldom they are.
            self._resident_due = now + max(self._interval, (time.perf_counter() - begin) / RESIDENT_SHARE)
        size = getattr(buffer, "buffer_size", 0)
        filled = size if getattr(buffer, "full", False) else getattr(buffer, "pos", 0)
        return {
            "reserved_mib": reserved / MIB,
            "resident_mib": self._resident[name] / MIB,
            "fill": filled / size if size else 0.0,
        }


def _arrays(buffer: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays of a buffer, those in dictionaries included."""
    for value in vars(buffer).values():
        for item in value.values() if isinstance(value, dict) else (value,):
            if isinstance(item, np.ndarray) and item.dtype != object:
                yield item


def _resident(array: np.ndarray[Any, Any]) -> int:
    try:
        return int(proc.resident(array.__array_interface__["data"][0], array.nbytes))
    except OSError:  # no pagemap here: what was allocated is all that is known
        return int(array.nbytes)
