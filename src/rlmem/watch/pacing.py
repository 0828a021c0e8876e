"""Work that may cost a given share of one core: done often while it is cheap, seldom where it is dear."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: What each kind of work may take of one core at one sample a second. With the look itself (a few files a process) the
#: sum stays under 0.5 %. Who samples faster wants to know sooner, and pays in proportion.
SHARES = {
    "census": 0.0002,
    "pages": 0.0007,
    "owners": 0.0016,
    "limits": 0.0003,
    "gpus": 0.0008,
    "siblings": 0.0001,
    "judge": 0.0006,
}


class Pacer:
    """Says when work is due again: not before ``least`` samples, and later where it cost more CPU time."""

    def __init__(
        self, kind: str, least: float, interval_s: float, *, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        self._share = SHARES[kind] / min(1.0, interval_s)
        self._least, self._interval, self._cpu = least, interval_s, cpu
        self._next = -math.inf
        self._is_first = True

    def is_due(self, now: float) -> bool:
        """Whether enough time has passed for what the last time cost."""
        return now >= self._next

    def spend(self, now: float, cost_s: float, *, least: float | None = None, most_s: float = math.inf) -> None:
        """Note what the work cost. It comes again within ``most_s`` whatever that was."""
        samples = self._least if least is None else least
        self._next = now + max(samples * self._interval, min(cost_s / self._share, most_s))

    def hurry(self) -> None:
        """Make the work due at once."""
        self._next = -math.inf

    @contextmanager
    def work(self, now: float) -> Iterator[None]:
        """Measure the work done within. The first time includes imports and a driver's start, and sets no pace."""
        begin = self._cpu()
        try:
            yield
        finally:
            self.spend(now, 0.0 if self._is_first else self._cpu() - begin)
            self._is_first = False
