"""Which transitions hindsight replay may draw, found in time that does not grow with the buffer."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import int32, int64, void

from rlmem.buffers.native import compiled

Array = npt.NDArray[Any]


@compiled(void(int64, int64[::1], int64[::1], int32[::1], int64[::1]))
def select(size: int, ranks: Array, sums: Array, lengths: Array, found: Array) -> None:
    """Find the places of the n-th valid transitions: the group of that size by its running sum, then by counting."""
    for i in range(ranks.size):
        group = np.searchsorted(sums, ranks[i], side="right")
        left = ranks[i] - (sums[group - 1] if group else 0)
        at = group * size
        while True:
            if lengths[at] > 0:
                if left == 0:
                    break
                left -= 1
            at += 1
        found[i] = at
