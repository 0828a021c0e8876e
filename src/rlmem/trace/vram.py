"""VRAM of a run from recordings of its update on a CPU: torch's allocated and reserved peaks, and the driver's figure.

The update is extended to its real size, then replayed through the caching allocator together with the room kernels take
for themselves; the driver's figure adds the CUDA context with the modules that were loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rlmem.core.quantity import Quantity
from rlmem.model.constants import Constants
from rlmem.trace.align import Peak, Recording, Timeline, extend
from rlmem.trace.allocator import CachingAllocator
from rlmem.trace.workspace import MATMULS, Gpu, Room, rooms
from rlmem.units import MIB

Bound = Literal["low", "expected", "high"]
#: How far the order of earlier allocations may move what is reserved: bytes, and a part of it.
_ORDER_BYTES, _ORDER_PART = 4 * MIB, 0.06
_CUDNN = ("convolution", "rnn", "lstm", "gru")


@dataclass(frozen=True, slots=True, kw_only=True)
class VramPrediction:
    """Peaks with their ranges, and where they come from."""

    #: ``torch.cuda.max_memory_allocated``.
    allocated: Quantity
    #: ``torch.cuda.max_memory_reserved``.
    reserved: Quantity
    #: What the driver counts for the process.
    process: Quantity
    #: Tensors alone, without the room of kernels: the operation at their peak and who holds what there.
    peak: Peak
    #: Operations that could not be aligned, of all.
    unaligned: int
    operations: int
    #: Whether cuDNN is loaded: "mlp" or "conv".
    kernels: str


def predict_vram(
    recordings: Sequence[Recording],
    size: int,
    *,
    constants: Constants,
    static_bytes: int = 0,
    kernels: Literal["mlp", "conv"] | None = None,
    gpu: Gpu | None = None,
) -> VramPrediction:
    """Peaks of the update at ``size`` along the recordings' axis.

    ``static_bytes`` is what lives on the device all the time beyond the tensors the recordings found alive before they
    began. ``kernels`` says whether cuDNN is loaded ("conv"); the recorded operations tell when it is left out.
    """
    gpu = gpu or Gpu()
    timeline = extend(recordings, size)
    peak = timeline.peak()
    ops = {event.op for event in timeline.recording.events}
    if kernels is None:
        kernels = "conv" if any(name in op for op in ops for name in _CUDNN) else "mlp"
    low, expected, high = (_replay(timeline, static_bytes, gpu, bound) for bound in ("low", "expected", "high"))
    # Between operations that have partners there may be more, or less, than could be replayed.
    anchored = timeline.anchored_bytes - peak.nbytes
    slack = abs(anchored) + timeline.uncertain_bytes + _ORDER_BYTES
    moved = round(_ORDER_PART * expected[1])
    context = constants.quantity(f"cuda.context-{kernels}")
    allocated, reserved = (
        Quantity.of(
            max(expected[place] + anchored, 0),
            name,
            "a recorded update, extended operation by operation and replayed",
            low=max(low[place] - slack - order, 0),
            high=high[place] + slack + order,
        )
        for place, (name, order) in enumerate((("allocated by torch", 0), ("reserved by torch", moved)))
    )
    return VramPrediction(
        allocated=allocated,
        reserved=reserved,
        process=reserved + context,
        peak=peak,
        unaligned=timeline.unaligned,
        operations=len(timeline.recording.events),
        kernels=kernels,
    )


def _replay(timeline: Timeline, static_bytes: int, gpu: Gpu, bound: Bound) -> tuple[int, int]:
    """Peak allocated and reserved bytes of an update that runs on a GPU."""
    allocator = CachingAllocator()
    held: dict[int, int] = {}
    if static_bytes:
        allocator.allocate(static_bytes)
    for storage, nbytes in timeline.recording.before:
        _make(allocator, held, storage, nbytes)
    multiplied: set[bool] = set()
    for event in timeline.recording.events:
        for storage in event.freed:
            if storage in held:
                allocator.release(held.pop(storage))
        op, backward = event.op.removesuffix(".backward"), event.op.endswith(".backward")
        if op in MATMULS and backward not in multiplied:
            multiplied.add(backward)
            allocator.allocate(gpu.handle_bytes)
        asked = rooms(event, gpu)
        for place, (storage, nbytes) in enumerate(event.made):
            _visit(allocator, asked, place, bound)
            _make(allocator, held, storage, nbytes)
        _visit(allocator, asked, len(event.made), bound)
    return allocator.peak_allocated, allocator.peak_reserved


def _make(allocator: CachingAllocator, held: dict[int, int], storage: int, nbytes: int) -> None:
    if storage in held:  # made larger or smaller in place
        allocator.release(held.pop(storage))
    if nbytes:
        held[storage] = allocator.allocate(nbytes)


def _visit(allocator: CachingAllocator, asked: Sequence[Room], place: int, bound: Bound) -> None:
    for room in asked:
        nbytes: int = getattr(room, bound)
        if room.after == place and nbytes:
            allocator.release(allocator.allocate(nbytes))
