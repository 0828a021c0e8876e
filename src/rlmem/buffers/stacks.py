"""Is an observation a stack of frames, or a window sliding over a stream? The data says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from rlmem.buffers.kernels import MAX_DEPTH

#: Steps that have to be seen to change and to follow before a stack is believed in.
ENOUGH = 8


def _divisors(n: int) -> Iterator[int]:
    return (d for d in range(1, n // 2 + 1) if n % d == 0)


def _follows(before: npt.NDArray[np.generic], after: npt.NDArray[np.generic], axis: int, step: int) -> bool:
    """Whether every ``after`` is its ``before`` moved on by ``step`` along an axis (of one entry)."""
    length = before.shape[axis + 1]
    left: list[slice] = [slice(None)] * before.ndim
    right = list(left)
    left[axis + 1], right[axis + 1] = slice(step, length), slice(0, length - step)
    return before[tuple(left)].tobytes() == after[tuple(right)].tobytes()


def recognise(before: npt.NDArray[np.generic], after: npt.NDArray[np.generic]) -> tuple[int, int] | None:
    """How many frames are stacked, and along which axis; None when the steps (n, *shape) do not say so.

    Only steps that change count: a still picture follows itself in any way one likes.
    """
    if not before.size or before.ndim < 2:
        return None
    flat_before, flat_after = (a.reshape(len(a), -1) for a in (before, after))
    changed = np.flatnonzero((flat_before.view(np.uint8) != flat_after.view(np.uint8)).any(axis=1))
    if len(changed) < ENOUGH:
        return None
    before, after = before[changed], after[changed]
    axes = dict.fromkeys((0, before.ndim - 2))
    for axis in axes:
        for step in _divisors(before.shape[axis + 1]):
            depth = before.shape[axis + 1] // step
            # One step of a few first: almost everything is refused by it.
            if (
                depth <= MAX_DEPTH
                and _follows(before[:2], after[:2], axis, step)
                and _follows(before, after, axis, step)
            ):
                return depth, axis
    return None
