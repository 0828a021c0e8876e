"""Batch arrays used again as soon as nobody holds them: no allocation a sample, and never one overwritten in use."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Allocate = Callable[[tuple[int, ...], np.dtype[Any]], npt.NDArray[Any]]
#: Arrays kept for one name; a loop needs two, since it still holds the last batch when it asks for the next.
KEPT = 3


def _references(arrays: list[npt.NDArray[Any]], index: int) -> int:
    return sys.getrefcount(arrays[index])


class Batches:
    """Arrays by name and shape. A tensor or view made from one keeps it taken; once they are gone it comes again."""

    def __init__(self, allocate: Allocate | None = None) -> None:
        self._allocate: Allocate = allocate or np.empty
        self._held: dict[tuple[Any, ...], list[npt.NDArray[Any]]] = {}
        # What Python counts for an array only its list holds; it differs between versions.
        self._alone = _references([np.empty(0)], 0)

    def array(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array nobody else holds; its content is left over from before."""
        held = self._held.setdefault((name, shape, dtype), [])
        for index in range(len(held)):
            if _references(held, index) == self._alone:
                return held[index]
        fresh = self._allocate(shape, dtype)
        if len(held) < KEPT:
            held.append(fresh)
        return fresh

    @property
    def nbytes(self) -> int:
        """Bytes kept for batches."""
        return sum(array.nbytes for held in self._held.values() for array in held)

    def clear(self) -> None:
        """Let them go."""
        self._held.clear()
