"""One replay buffer in a process of its own: fill it, weigh it, sample from it, check what comes back."""

from __future__ import annotations

import functools
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from buffer_bench.memory import resident, settle
from buffer_bench.recording import Recording
from buffer_bench.stores import ROWS, Store
from buffer_bench.workloads import WORKLOADS, recorded

#: A small buffer is filled over its end and sampled before anything is measured: imports, compilation, allocator pools.
WARM_CAPACITY = 1_024
WARM_ADDS = 2_560
WARM_SAMPLES = 20
#: Calls at the start of a turn that are not counted: the other process has had the caches meanwhile.
TURN_ADDS = 16
TURN_SAMPLES = 3


class ReplaySession:
    """Answers the parent's commands."""

    def __init__(self, *, workload: str, store: str, capacity: int, folder: str, seed: int) -> None:
        self.workload, self.row, self.capacity = WORKLOADS[workload], ROWS[store], capacity
        self.folder = Path(folder)
        self.recording = Recording(self.folder / self.workload.recording, self.workload.layout, recorded(capacity))
        self.scratch = Path(tempfile.mkdtemp(prefix="buffer-bench-"))
        self.added = 0
        self.seed = seed
        np.random.seed(seed)  # SB3 draws from the global generator
        self.store = self._build(min(WARM_CAPACITY, capacity))
        self.add(count=WARM_ADDS)
        self._sample(WARM_SAMPLES)
        del self.store
        self.added = 0
        settle()
        self.empty = resident(self.folder)
        self.store = self._build(capacity)

    def _build(self, capacity: int) -> Store:
        folder = self.scratch / str(capacity)
        folder.mkdir(exist_ok=True)
        return self.row.build(self.workload.layout, capacity, folder, **self.row.options)

    def _sample(self, count: int) -> None:
        for _ in range(count):
            self.store.sample()

    def add(self, count: int) -> dict[str, Any]:
        """Add so many transitions; only the library's calls are timed. Rebuilding them from the recording is not."""
        store, chunk, clock, processor = self.store, self.store.chunk, time.perf_counter_ns, time.process_time_ns
        calls = -(-count // chunk)
        # In arrays: lists of numbers would leave megabytes of pools behind, to be counted as the store's.
        times, busy = np.zeros(calls, np.int64), np.zeros(calls, np.int64)
        for call in range(calls):
            steps = [self.recording.step(self.added + number) for number in range(chunk)]
            prepared = store.prepare(steps)
            before = processor()
            start = clock()
            store.add(prepared)
            times[call] = clock() - start
            busy[call] = processor() - before
            self.added += chunk
        skip = TURN_ADDS // chunk if calls > TURN_ADDS else 0
        counted = times[skip:]
        return {
            "count": len(counted) * chunk,
            "ns": int(counted.sum()),
            "cpu_ns": max(int(busy[skip:].sum()) - len(counted) * clock_cost(), 1),
            "p99_ns": float(np.quantile(counted, 0.99)) / chunk,
        }

    def memory(self) -> dict[str, Any]:
        """Bytes held beyond those of the empty process."""
        settle()
        return {"bytes": resident(self.folder) - self.empty}

    def sample(self, seconds: float) -> dict[str, Any]:
        """Sample for so long; every call's time, and the processor time of all threads together."""
        store, clock = self.store, time.perf_counter_ns
        batch = None
        for _ in range(TURN_SAMPLES):
            batch = store.sample()
        times: list[int] = []
        busy = time.process_time_ns()
        end = clock() + int(seconds * 1e9)
        start = 0
        while len(times) < 2 or start < end:
            start = clock()
            batch = store.sample()
            times.append(clock() - start)
        del batch
        return {"ns": times, "cpu_ns": max(time.process_time_ns() - busy, 1)}

    def check(self, batches: int, seconds: float) -> dict[str, Any]:
        """Compare sampled batches with the recording; the ends of episodes are counted apart."""
        found = dict.fromkeys(
            ("sampled", "terminated", "terminated_wrong", "truncated", "truncated_wrong", "obs_wrong",
             "next_wrong_inside", "action_wrong", "terminal_wrong", "stale"), 0
        )  # fmt: skip
        end = time.monotonic() + seconds
        for _ in range(batches):
            for name, count in self._check_one().items():
                found[name] += count
            if time.monotonic() > end:
                break
        return found

    def _check_one(self) -> dict[str, int]:
        source, got = self.recording, self.store.decode(self.store.sample())
        # A transition may be one of the last `capacity` added, and nothing else.
        known = (got.number >= 0) & (got.number < len(source))
        age = (self.added - 1 - got.number) % len(source)
        number = np.where(known, got.number, 0)
        units = source.unit[number]
        obs = differs(got.obs, source.observations(units))
        after = differs(got.next_obs, source.observations(units + 1))
        terminated, truncated = source.terminated[number], source.truncated[number]
        action = differs(got.action.reshape(len(number), -1), source.action[number].reshape(len(number), -1))
        return {
            "sampled": len(number),
            "terminated": int(terminated.sum()),
            "terminated_wrong": int((terminated & after).sum()),
            "truncated": int(truncated.sum()),
            "truncated_wrong": int((truncated & after).sum()),
            "obs_wrong": int(obs.sum()),
            "next_wrong_inside": int((after & ~terminated & ~truncated).sum()),
            "action_wrong": int(action.sum()),
            "terminal_wrong": int((got.terminal.astype(bool) != terminated).sum()),
            "stale": int((~known | (age >= self.capacity)).sum()),
        }

    def describe(self) -> dict[str, Any]:
        """What the store says of itself."""
        return self.store.describe()


@functools.cache
def clock_cost() -> int:
    """What reading the processor's clock adds to what is between two readings."""
    costs = []
    for _ in range(2_000):
        before = time.process_time_ns()
        start = time.perf_counter_ns()
        time.perf_counter_ns() - start
        costs.append(time.process_time_ns() - before)
    return int(np.median(costs))


def differs(got: Any, truth: Any) -> np.ndarray:
    """Which rows of a batch are not what they should be, by value; a Dict's row counts once."""
    if isinstance(truth, dict):
        return np.logical_or.reduce([differs(got[key], truth[key]) for key in truth])
    rows = len(truth)
    if got.shape != truth.shape:
        return np.ones(rows, bool)
    return (got.reshape(rows, -1) != truth.reshape(rows, -1)).any(axis=1)
