"""The last few results, so that what a page asks for twice is made once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

#: Plans and fits that are kept: a few pages and the way back.
MOST_KEPT = 24
T = TypeVar("T")


class Cache:
    """The last few results by name; made outside the lock, so that a slow one holds up nobody."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most, self._lock = most, threading.Lock()
        self._results: OrderedDict[str, object] = OrderedDict()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return the result of a name, made when it is not there."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return self._results[key]  # type: ignore[return-value]
        made = make()
        with self._lock:
            self._results[key] = made
            while len(self._results) > self._most:
                self._results.popitem(last=False)
        return made
