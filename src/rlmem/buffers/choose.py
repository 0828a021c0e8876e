"""Which codec, transform and block size: tried on the data, judged by bytes and by a stated cost of decoding.

The cost is a model with constants, not a stopwatch: the same data gets the same codec on a busy machine and an idle
one. ``benchmarks/buffers.py`` shows what the choice really costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlmem.buffers import clib, codec
from rlmem.buffers.codec import Bytes, Encoder, Method
from rlmem.buffers.layout import Layout, raw_block

if TYPE_CHECKING:
    from rlmem.buffers.column import Column
    from rlmem.buffers.options import Options

#: Nanoseconds a byte, rough estimates from one busy 2-core x86-64 machine, adjusted to recordings of Pong and of a camera; no
#: benchmark derives them, and docs/buffers.md says where they are too hopeful. In order: a plain buffer's fancy index and copy to
#: torch, our gather, writing a decoded byte, undoing each transform; and reading a coded byte, by coder (Zstandard with
#: matches, its Huffman stage alone).
PLAIN_NS, COPY_NS, RAW_NS = 0.35, 0.16, 0.12
UNDO_NS = {codec.LEFT: 0.40, codec.UP: 0.06, codec.PLANE: 0.06, codec.TIME: 0.06, codec.SHUFFLE: 0.5}
LZ4_NS, ZSTD_NS, HUFFMAN_NS = 1.5, 7.0, 2.5
#: What a transition costs beside its observation (action, reward, flags): sizes are compared with it included.
OTHER_BYTES = 20
#: Threads the model counts on; more only help.
THREADS = 2
#: Units tried, and the block sizes considered.
SAMPLE_UNITS = 64
BLOCKS = (1, 2, 4, 6, 8, 12, 16, 32)
#: A decoded block stays well inside a core's second-level cache.
MOST_BLOCK_BYTES = 256 << 10
#: Among choices this close in size the faster one wins; where speed is given up for size, only among those next to equal.
#: A saving under a third is not worth sampling slower for.
CLOSE, NEXT_TO, SAVING = 1.25, 1.05, 0.67
#: The model is not better than this: from here on a choice counts as being as fast as a plain buffer.
AS_FAST = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A layout with its block size, and the method its blocks are coded with; None keeps them as they are."""

    layout: Layout
    method: Method | None
    unit_bytes: float
    speed: float


def sampling_speed(layout: Layout, method: Method | None, unit_bytes: float) -> float:
    """Predicted sampling speed as a share of a plain buffer's."""
    wanted = 2 * layout.obs_bytes
    cost = wanted * COPY_NS / THREADS
    if method is not None:
        undo = sum(ns for bit, ns in UNDO_NS.items() if method.mask & bit)
        coded = LZ4_NS if method.place == codec.LZ4 else ZSTD_NS if method.level else HUFFMAN_NS
        block = layout.block_bytes * (RAW_NS + undo) + unit_bytes * layout.block * coded
        # An observation and the next one are depth + 1 units in a row.
        blocks = min(1 + layout.depth / layout.block, layout.depth + 1)
        cost += blocks * block / THREADS
    return wanted * PLAIN_NS / cost


def choose(options: Options, key: str, layout: Layout, sample: Bytes, rows: int) -> Choice:
    """The best way to keep a key, judged on consecutive units of it."""
    plain_layout = layout.with_block(raw_block(layout.unit_bytes, rows))
    plain = Choice(
        layout=plain_layout, method=None, unit_bytes=layout.unit_bytes, speed=sampling_speed(plain_layout, None, 0)
    )
    asked = options.codec_of(key)
    if asked == "none" or layout.unit_bytes < 32 or len(sample) < 16:
        return plain
    coders = {"lz4": (codec.LZ4,), "zstd": (codec.ZSTD,), "auto": (codec.LZ4, codec.ZSTD)}[asked]
    available = {codec.LZ4: clib.coders().lz4_decompress, codec.ZSTD: clib.coders().zstd_decompress}
    coders = tuple(coder for coder in coders if available[coder])
    tried = [_tried(candidate, method, sample) for candidate, method in _candidates(layout, coders, sample, rows)]
    if asked == "auto":
        for floor, saving, close in (
            (AS_FAST, SAVING, CLOSE),
            (options.speed, SAVING, NEXT_TO),
            (1.5, codec.WORTH, CLOSE),
        ):
            best = _best([c for c in tried if c.speed >= floor and c.unit_bytes <= saving * layout.unit_bytes], close)
            if best:
                return best
        return plain
    return _best(tried) or plain


def _best(choices: list[Choice], close: float = CLOSE) -> Choice | None:
    if not choices:
        return None
    most = close * (OTHER_BYTES + min(choice.unit_bytes for choice in choices))
    return max((c for c in choices if OTHER_BYTES + c.unit_bytes <= most), key=lambda c: c.speed)


def _candidates(layout: Layout, coders: tuple[int, ...], sample: Bytes, rows: int) -> Iterator[tuple[Layout, Method]]:
    """Every block size and coder, with the transforms that did best at one of them."""
    fitting = [
        b
        for b in BLOCKS
        if b * layout.unit_bytes <= max(MOST_BLOCK_BYTES, layout.unit_bytes) and b <= max(1, rows // 32)
    ]
    for block in fitting:
        sized = layout.with_block(block)
        for coder in coders:
            for mask in _good_masks(sized, coder, sample):
                for level in _levels(coder, mask):
                    yield sized, Method(place=coder, level=level, mask=mask)


def _levels(coder: int, mask: int) -> tuple[int, ...]:
    """Whole frames repeat themselves; differences of neighbouring pixels do not, and are only Huffman-coded."""
    if coder == codec.LZ4 or mask == codec.SHUFFLE:
        return (1,)
    return (1, 3) if mask in (0, codec.TIME) else (0,)


def _good_masks(layout: Layout, coder: int, sample: Bytes) -> list[int]:
    masks = list(_masks(layout))
    few = sample[: max(8, layout.block)]
    methods = {mask: Method(place=coder, level=_levels(coder, mask)[0], mask=mask) for mask in masks}
    sizes = {mask: _tried(layout, method, few).unit_bytes for mask, method in methods.items()}
    return sorted(masks, key=lambda mask: sizes[mask])[:3]


def _masks(layout: Layout) -> Iterator[int]:
    yield 0
    left, up, plane = layout.lags()
    time = (codec.TIME,) if layout.block > 1 else ()
    yield from time
    if layout.dtype.itemsize > 1:
        yield codec.SHUFFLE
    if left:
        yield codec.LEFT
        yield from (codec.LEFT | bit for bit in time)
    if up:
        yield from (codec.UP, codec.LEFT | codec.UP)
    if plane:
        yield from (codec.LEFT | codec.PLANE, codec.UP | codec.PLANE, codec.LEFT | codec.UP | codec.PLANE)


def _tried(layout: Layout, method: Method, sample: Bytes) -> Choice:
    """Code some blocks of the sample and see."""
    blocks = min(len(sample), SAMPLE_UNITS) // layout.block
    if not blocks:
        return Choice(layout=layout, method=method, unit_bytes=layout.unit_bytes, speed=0.0)
    encoder = Encoder(layout.block_bytes)
    geometry = layout.geometry(1)
    address = sample.__array_interface__["data"][0]
    # Spread over what has been seen, not only its beginning.
    stride = max(1, (len(sample) // layout.block) // blocks)
    sizes = [
        min(encoder.encode(address + n * stride * layout.block_bytes, geometry, method), layout.block_bytes)
        for n in range(blocks)
    ]
    unit_bytes = sum(sizes) / (blocks * layout.block)
    return Choice(layout=layout, method=method, unit_bytes=unit_bytes, speed=sampling_speed(layout, method, unit_bytes))


class Watch:
    """Looks at a block now and then and changes the transform when the data has changed."""

    EVERY = 256

    def __init__(self, options: Options) -> None:
        self._options = options
        self._countdown = self.EVERY

    def __call__(self, column: Column, address: int) -> None:
        """A block is about to be coded."""
        self._countdown -= 1
        if self._countdown or column.encoder is None or column.method is None:
            return
        self._countdown = self.EVERY
        layout, place = column.layout, column.method.place
        tried: list[Choice] = []
        for mask in _masks(layout):
            method = Method(place=place, level=_levels(place, mask)[0], mask=mask)
            size = column.encoder.encode(address, column.geometry, method) / layout.block
            tried.append(
                Choice(layout=layout, method=method, unit_bytes=size, speed=sampling_speed(layout, method, size))
            )
        best = _best([c for c in tried if c.speed >= self._options.speed], NEXT_TO)
        if best:
            column.method = best.method
