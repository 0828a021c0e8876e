"""Extending recordings by operation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rlmem.errors import AnalysisError
from rlmem.model.constants import Constants
from rlmem.trace.align import Event, Recording, at, extend
from rlmem.trace.vram import predict_vram
from rlmem.trace.workspace import Gpu, reduction_bytes, rooms
from rlmem.units import MIB


def update(batch: int) -> Recording:
    """A step whose peak is the optimizer's when the batch is small, the images' when it is large."""
    return Recording(
        size=batch,
        before=((0, 1000),),
        events=(
            Event(op="_to_copy", made=((1, 40 * batch),)),
            Event(op="div", made=((2, 40 * batch),)),
            Event(op="mm", made=((3, 4 * batch),), freed=(1,)),
            Event(op="mm.backward", made=((4, 1000),), freed=(2, 3)),
            Event(op="zeros_like", made=((5, 1000), (6, 1000))),
            Event(op="_foreach_sqrt", made=((7, 1000),)),
            Event(op="end", freed=(7, 4)),
        ),
    )


def looped(batch: int, steps: int) -> Recording:
    """A loop whose length is the data's: every turn keeps a tensor until the end."""
    turns = [Event(op="lstm", made=((10 + step, 100),)) for step in range(steps)]
    end = Event(op="end", freed=tuple(10 + step for step in range(steps)))
    return Recording(size=batch, events=(Event(op="cat", made=((1, batch),)), *turns, Event(op="sum"), end))


def test_the_extended_update_is_the_real_one() -> None:
    timeline = extend([update(8), update(16)], 512)
    assert timeline.recording == update(512)
    assert timeline.curve == list(update(512).live())
    assert (timeline.unaligned, timeline.uncertain_bytes) == (0, 0)
    assert timeline.anchored_bytes == max(timeline.curve)


def test_the_operation_at_the_peak_changes_with_the_batch() -> None:
    small, large = (extend([update(8), update(16)], batch).peak() for batch in (8, 512))
    assert (small.op, small.nbytes) == ("_foreach_sqrt", 5000)
    assert (large.op, large.nbytes) == ("div", 1000 + 2 * 40 * 512)
    assert dict(large.holders) == {"_to_copy": 40 * 512, "div": 40 * 512, "before": 1000}
    assert next(iter(small.holders)) == "zeros_like"


def test_one_recording_is_not_enough() -> None:
    with pytest.raises(AnalysisError, match="two sizes"):
        extend([update(8), update(8)], 512)


@pytest.mark.parametrize(
    ("points", "size", "value"),
    [
        ([(8, 96), (16, 96)], 512, 96),
        ([(8, 100), (16, 180)], 512, 5140),
        ([(8, 256), (16, 1024)], 1024, 4 * 1024 * 1024),
        ([(8, 100), (16, 180), (32, 340)], 512, 5140),
        ([(4, 16 + 4), (8, 64 + 8), (16, 256 + 16)], 100, 10100),
        ([(8, 100), (16, 60)], 512, 0),
        ([(8, 0), (16, 80)], 32, 240),
    ],
)
def test_a_quantity_is_extended(points: Sequence[tuple[int, int]], size: int, value: int) -> None:
    assert at(points, size) == value


def test_a_loop_of_the_data_is_extended_by_the_live_curve() -> None:
    timeline = extend([looped(8, 2), looped(16, 4)], 64)
    assert timeline.unaligned == 2
    assert max(timeline.curve) == 64 + 4 * 100  # no more turns than were recorded
    assert timeline.anchored_bytes == 64 + 16 * 100  # what the lines at both ends say
    found = predict_vram([looped(8, 2), looped(16, 4)], 64, constants=Constants())
    assert found.allocated.high - found.allocated.low >= 12 * 100
    assert found.unaligned == 2


def test_what_has_no_partner_is_sized_like_its_equals_or_guessed() -> None:
    def one(batch: int, *extra: int) -> Recording:
        more = [Event(op="odd", made=((20 + place, nbytes),)) for place, nbytes in enumerate(extra)]
        return Recording(size=batch, events=(Event(op="mm", made=((1, 4 * batch),)), *more, Event(op="end")))

    timeline = extend([one(8), one(16, 64, 50)], 160)
    assert timeline.recording.events[1].made == ((20, 640),)  # 64 B were 4 per row elsewhere
    assert timeline.recording.events[2].made == ((21, 500),)
    assert timeline.uncertain_bytes == 450


def test_plain_lists_are_read() -> None:
    plain = {"before": [[0, 8]], "events": [["sum.backward", [[1, 4]], [], [64, 8, 4]], ["end", [], [1]]]}
    recording = Recording.from_plain(8, plain)
    assert recording.events[0] == Event(op="sum.backward", made=((1, 4),), work=(64, 8, 4))
    assert list(recording.live()) == [12, 8]


@pytest.mark.parametrize(
    ("work", "nbytes"),  # read off an H200, less the 512 B of semaphores
    [
        ((4096, 4096, 4), 134217728),
        ((32768, 2048, 4), 138412032),
        ((8192, 2048, 4), 134217728),
        ((16384, 4096, 4), 138412032),
        ((2048, 1200, 4), 19660800),
        ((2048, 512, 4), 8388608),
        ((1024, 512, 4), 4194304),
        ((4096, 1024, 16), 134217728),
        ((4096, 35, 16), 286720),
        ((32768, 8, 4), 8192),
        ((256, 256, 4), 0),
    ],
)
def test_a_reduction_takes_the_room_it_takes_on_the_gpu(work: tuple[int, int, int], nbytes: int) -> None:
    assert reduction_bytes(work, Gpu()) == nbytes


def test_a_convolution_takes_copies_of_what_it_works_on() -> None:
    source, weight, result = 115605504, 32768, 52428800
    work = (source, weight, result, 1024, 4, 32, 8, 4, 0)
    (forward,) = rooms(Event(op="convolution", made=((1, result),), work=work), Gpu())
    assert forward.expected == 168067072
    (backward,) = rooms(Event(op="convolution_backward.backward", made=((1, weight), (2, 128)), work=work), Gpu())
    assert backward.expected == pytest.approx(172130304, rel=0.001)
    assert (backward.after, backward.low) == (2, 0)


def test_a_prediction_adds_workspaces_and_the_context() -> None:
    found = predict_vram([update(8), update(16)], 512, constants=Constants(), static_bytes=3 * MIB)
    assert found.reserved.value == 2 * 32 * MIB + 20 * MIB + 2 * MIB
    assert found.process.value - found.reserved.value == Constants().find("cuda.context-mlp").expected
    assert found.allocated.low <= found.allocated.value <= found.allocated.high
    assert found.peak.op == "div"
    older = predict_vram([update(8), update(16)], 512, constants=Constants(), gpu=Gpu(handle_bytes=8 * MIB))
    assert older.reserved.value < found.reserved.value
