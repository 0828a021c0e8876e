"""Room that kernels on an NVIDIA GPU take beside their results, for as long as they run.

A reduction over rows whose outputs lie side by side splits the rows among blocks, which meet in global memory; torch's
rule is followed to the byte. cuDNN turns float32 convolutions into its own order of dimensions and back: copies of the
input, the weight and the output, and partial sums for the weight's gradient. Which of them it needs is its own choice
by shape; the rules here were read off 1,109 convolutions on one H200 and are right in kind rather than exactly, so they
come with a range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlmem.trace.align import Event
from rlmem.units import MIB

MATMULS = ("mm", "addmm", "bmm", "baddbmm", "addmv", "mv", "addbmm", "linear")
_WARP = 32
_BLOCK = 512
_MIN_VALUES, _MAX_VALUES = 16, 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """What of a GPU decides the room of kernels; the numbers of an H100 or H200 unless told otherwise."""

    multiprocessors: int = 132
    threads: int = 2048
    #: Room of one cuBLAS handle; a thread that multiplies matrices has one, and the backward pass is another thread.
    #: 32 MiB on Hopper, 8.125 MiB before.
    handle_bytes: int = 32 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Bytes a kernel takes after ``after`` of its operation's results have been made."""

    after: int
    low: int
    expected: int
    high: int


def rooms(event: Event, gpu: Gpu) -> tuple[Room, ...]:
    """The room an operation's kernels take, in order."""
    op = event.op.removesuffix(".backward")
    if not event.work:
        return ()
    if op == "convolution":
        return (_forward(event.work),)
    if op == "convolution_backward":
        return _backward(event.work, len(event.made))
    nbytes = reduction_bytes(event.work, gpu)
    return (Room(after=len(event.made), low=nbytes, expected=nbytes, high=nbytes),) if nbytes else ()


def reduction_bytes(work: Sequence[int], gpu: Gpu) -> int:
    """Global memory of a reduction: ``work`` is values per output, outputs, bytes of an accumulator.

    >>> reduction_bytes((4096, 4096, 4), Gpu()), reduction_bytes((64, 64, 4), Gpu())
    (134217728, 0)
    """
    values, outputs, accumulator = work
    vector = next(width for width in (4, 2, 1) if outputs % width == 0)
    across = outputs // vector
    most = _BLOCK // vector
    height = min(_power(values), most // min(_power(across), _WARP))
    width = min(_power(across), most // height)
    if values < min(height * 16, _MAX_VALUES):
        return 0
    each = -(-values // height)
    grid = -(-across // width)
    target = gpu.multiprocessors * (gpu.threads // (width * height))
    if each < _MAX_VALUES or grid > target:
        return 0
    blocks = max(min(-(-target // grid), -(-each // _MIN_VALUES)), -(-each // _MAX_VALUES))
    return accumulator * outputs * blocks * width * vector if blocks > 1 else 0


def _power(number: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (max(number, 1).bit_length() - 1)


def _forward(work: Sequence[int]) -> Room:
    source, weight, result, rows, channels, _, kernel, *_ = work
    every = source + weight + result
    direct = kernel == 1 or (channels < 16 and not (kernel >= 5 and rows >= 128))
    return Room(after=1, low=0, expected=0 if direct else every, high=0 if kernel == 1 else every)


def _backward(work: Sequence[int], made: int) -> tuple[Room, ...]:
    source, weight, result, rows, channels, out, kernel, stride, wanted = work
    if kernel == 1:
        return ()
    every = source + weight + result
    found = []
    if wanted:
        direct = channels < 12
        found.append(Room(after=1, low=0, expected=0 if direct else every, high=every))
    sums = min(128 * weight, 4 * MIB)
    padded = (-(-channels // 4) * 4 * source) // channels + weight + result if channels > 1 else 0
    direct = channels == 1 or (channels < 16 and kernel < (8 if channels < 12 else 4))
    expected = 0 if direct and rows >= 32 else padded + sums
    # Small kernels that move by one have a transform that trades much room for speed; cuDNN takes it now and then.
    transform = 9 * every if kernel == 3 and stride == 1 and channels >= 16 and out <= 64 else 0
    found.append(Room(after=made, low=0, expected=expected, high=max(expected, every + sums, transform)))
    return tuple(found)
