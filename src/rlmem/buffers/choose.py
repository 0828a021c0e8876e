"""Which codec, transform and block size: tried on the data, judged by bytes and by a stated cost of coding and decoding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rlmem.buffers import clib, codec, costs, huffman
from rlmem.buffers.codec import Bytes, Encoder, Ints, Method
from rlmem.buffers.layout import Layout, raw_block
from rlmem.buffers.models import REFERENCE, TABLE, Models

if TYPE_CHECKING:
    from rlmem.buffers.column import Column
    from rlmem.buffers.options import Options

#: What a transition costs beside its observation (action, reward, flags): sizes are compared with it included.
OTHER_BYTES = 20
#: What a block costs in the table that finds it.
ENTRY_BYTES = 16
#: Units tried, and the block sizes considered.
SAMPLE_UNITS = 64
BLOCKS = (1, 2, 4, 8, 16, 32)
#: A decoded block stays well inside a core's second-level cache.
MOST_BLOCK_BYTES = 256 << 10
#: Among choices this close in size the faster one wins. A saving under a third is not worth sampling slower for.
CLOSE, SAVING = 1.05, 0.67
#: The model is not better than this: from here on a choice counts as being as fast as a plain buffer.
AS_FAST = 1.1
#: The slowest adding that may be chosen.
ADDING = 0.3
#: What blocks are coded with is changed for what leaves at most this share of them.
BETTER = 0.99
#: A look at the data comes after so many units, and a decision after so many looks.
LOOK_UNITS, LOOKS = 256, 16
#: References a column may gather: each is a unit.
MOST_REFERENCES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A layout with its block size, and the method its blocks are coded with; None keeps them as they are.

    ``model`` is what the method needs to be given by a column's models.
    """

    layout: Layout
    method: Method | None
    unit_bytes: float
    speed: float
    adding: float = 1.0
    model: tuple[str, Bytes] | None = None

    def coding(self) -> dict[str, Any]:
        """What a new column is told of it."""
        models, method = Models(), self.method
        if method is not None and self.model is not None:
            method = replace(method, model=models.add(*self.model))
        return {"method": method, "models": models, "coded_bytes": self.unit_bytes if method else 0}


def choose(options: Options, key: str, layout: Layout, sample: Bytes, rows: int) -> Choice:
    """The best way to keep a key, judged on consecutive units of it."""
    plain_layout = layout.with_block(raw_block(layout.unit_bytes, rows))
    speed = costs.sampling_speed(plain_layout, None, 0, 0)
    plain = Choice(layout=plain_layout, method=None, unit_bytes=layout.unit_bytes, speed=speed)
    asked = options.codec_of(key)
    if asked == "none" or layout.unit_bytes < 32 or len(sample) < 16:
        return plain
    tried = list(_tried(layout, _coders(asked), sample, rows))
    if asked != "auto":
        # What was asked for is done; slower than wanted only where it cannot be had otherwise.
        quick = [choice for choice in tried if choice.speed >= options.speed]
        return _best(quick) or max(tried, key=lambda choice: choice.speed, default=plain)
    tried = [choice for choice in tried if choice.adding >= ADDING]
    for floor, saving in ((AS_FAST, SAVING), (options.speed, SAVING), (1.5, codec.WORTH)):
        best = _best([c for c in tried if c.speed >= floor and c.unit_bytes <= saving * layout.unit_bytes])
        if best:
            return best
    return plain


def _coders(asked: str) -> tuple[int, ...]:
    """What may be used, of what there is on this machine."""
    named = {
        "lz4": (codec.LZ4,), "zstd": (codec.ZSTD,), "huffman": (codec.HUFFMAN,),
        "auto": (codec.STORED, codec.LZ4, codec.ZSTD, codec.HUFFMAN),
    }[asked]  # fmt: skip
    missing = {
        coder for coder, function in (
            (codec.LZ4, clib.coders().lz4_decompress), (codec.ZSTD, clib.coders().zstd_decompress)
        ) if not function
    }  # fmt: skip
    return tuple(coder for coder in named if coder not in missing)


def _best(choices: list[Choice]) -> Choice | None:
    if not choices:
        return None
    most = CLOSE * (OTHER_BYTES + min(choice.unit_bytes for choice in choices))
    return max((c for c in choices if OTHER_BYTES + c.unit_bytes <= most), key=lambda c: c.speed)


def _tried(layout: Layout, coders: tuple[int, ...], sample: Bytes, rows: int) -> Iterator[Choice]:
    """Every block size, with every coder and transform that may suit it, tried on the sample."""
    for block in BLOCKS:
        sized = layout.with_block(block)
        if sized.block_bytes <= max(MOST_BLOCK_BYTES, layout.unit_bytes) and block <= max(
            1, rows // 32, len(sample) // 4
        ):
            yield from Trial(sized, sample).choices(coders)


class Trial:
    """One block size, tried."""

    def __init__(self, layout: Layout, sample: Bytes) -> None:
        self._layout, self._geometry = layout, layout.geometry(1)
        self._encoder = Encoder(layout.block_bytes)
        count = max(1, min(len(sample), SAMPLE_UNITS) // layout.block)
        # Spread over what has been seen, not only its beginning.
        stride = max(1, (len(sample) // layout.block) // count)
        start = sample.__array_interface__["data"][0]
        self._blocks = [start + n * stride * layout.block_bytes for n in range(count)]
        self._sample = sample

    def choices(self, coders: tuple[int, ...]) -> Iterator[Choice]:
        """All that may suit."""
        general = [coder for coder in coders if coder in (codec.LZ4, codec.ZSTD)]
        if general:
            masks = list(_whole_masks(self._layout))
            # One coder says which transform suits; level 3 is tried with that one only.
            sizes = {mask: self._dense(Method(place=general[-1], mask=mask)).unit_bytes for mask in masks}
            best = min(masks, key=lambda mask: sizes[mask])
            for coder in general:
                yield from (self._dense(Method(place=coder, mask=mask)) for mask in masks)
            if codec.ZSTD in general:
                yield self._dense(Method(place=codec.ZSTD, level=3, mask=best))
        if self._layout.block > 1:
            yield from self._sparse([coder for coder in coders if coder != codec.HUFFMAN])
        if codec.HUFFMAN in coders and self._layout.block_bytes >= 256:
            yield from (self._huffman(mask) for mask in pixel_masks(self._layout))

    def _choice(
        self, method: Method, total: float, runs: float = 0.0, model: tuple[str, Bytes] | None = None
    ) -> Choice:
        layout, units = self._layout, len(self._blocks) * self._layout.block
        judged = layout, method, total / units, runs / units
        return Choice(
            layout=layout, method=method, unit_bytes=total / units + ENTRY_BYTES / layout.block, model=model,
            speed=costs.sampling_speed(*judged), adding=costs.adding_speed(*judged),
        )  # fmt: skip

    def _dense(self, method: Method) -> Choice:
        size = self._layout.block_bytes
        coded = (self._encoder.encode(block, self._geometry, method) for block in self._blocks)
        return self._choice(method, sum(min(n, size) for n in coded))

    def _sparse(self, coders: list[int]) -> Iterator[Choice]:
        """Against the reference that leaves the smaller runs: nothing, or what most of the sample has at each place."""
        stored = Method(place=codec.STORED, mask=codec.SPARSE)
        fewest: tuple[int, Bytes] | None = None
        for reference in references(self._sample):
            address = reference.__array_interface__["data"][0]
            sizes = [self._encoder.encode(block, self._geometry, stored, address) for block in self._blocks]
            # What does not fit into half a block is left as it is.
            runs = sum(size or self._layout.block_bytes for size in sizes)
            if fewest is None or runs < fewest[0]:
                fewest = runs, reference
        if fewest is None or fewest[0] > codec.WORTH * len(self._blocks) * self._layout.block_bytes / 2:
            return
        runs, reference = fewest
        address, model = reference.__array_interface__["data"][0], (REFERENCE, reference)
        for coder in coders:
            for level in (1, 3) if coder == codec.ZSTD else (1,):
                method = Method(place=coder, level=level, mask=codec.SPARSE)
                sizes = [self._encoder.encode(block, self._geometry, method, address) for block in self._blocks]
                yield self._choice(method, sum(n or self._layout.block_bytes for n in sizes), runs, model)

    def _huffman(self, mask: int) -> Choice:
        counts = np.zeros(256, np.int64)
        for block in self._blocks:
            count_transformed(self._encoder, block, self._geometry, mask, counts)
        lengths = huffman.code_lengths(counts)
        total = huffman.coded_bytes(counts, lengths) + (huffman.HEAD + 2) * len(self._blocks)
        return self._choice(Method(place=codec.HUFFMAN, mask=mask), total, model=(TABLE, lengths))


def count_transformed(encoder: Encoder, block: int, geometry: Ints, mask: int, counts: Ints) -> None:
    """Add up how often each byte occurs in a block once it is transformed."""
    huffman.count_bytes(encoder.transformed(block, geometry, mask), encoder.block_bytes, counts)


def references(sample: Bytes) -> Iterator[Bytes]:
    """Units that the first one of a block may be told against."""
    yield np.zeros(sample.shape[1], np.uint8)
    few = sample[:: max(1, len(sample) // 31)][:31]
    yield np.partition(few, len(few) // 2, axis=0)[len(few) // 2].copy()


def _whole_masks(layout: Layout) -> Iterator[int]:
    """Transforms that leave whole repeated units, or whole numbers, to be matched."""
    yield 0
    if layout.block > 1:
        yield codec.TIME
    if layout.dtype.itemsize > 1:
        yield codec.SHUFFLE


def pixel_masks(layout: Layout) -> Iterator[int]:
    """Transforms that leave small differences between neighbours."""
    left, up, plane = layout.lags()
    time = (0, codec.TIME) if layout.block > 1 else (0,)
    beside = codec.LEFT | codec.ROWS if up else codec.LEFT
    yield from time
    if left:
        yield from (beside | bit for bit in time)
    if up:
        yield from (codec.UP, codec.LEFT | codec.UP)
    if plane:
        yield from (beside | codec.PLANE, codec.UP | codec.PLANE, codec.LEFT | codec.UP | codec.PLANE)


class Watch:
    """Looks at a block now and then, and after some looks changes what is coded with when the data has changed.

    One block alone says little: a robot that faces a wall now sees something else soon.
    """

    def __init__(self) -> None:
        self._wait = self._looks = 0
        #: How often each byte was seen, by transform; or sizes, by what may be used instead.
        self._counts: dict[int, Ints] = {}
        self._sizes: dict[Method, int] = {}

    def __call__(self, column: Column, address: int) -> None:
        """A block is about to be coded."""
        if self._wait:
            self._wait -= 1
            return
        self._wait = LOOK_UNITS // column.layout.block
        method, encoder = column.method, column.encoder
        if encoder is None or method is None:
            return
        self._looks += 1
        if method.place == codec.HUFFMAN:
            for mask in pixel_masks(column.layout):
                counts = self._counts.setdefault(mask, np.zeros(256, np.int64))
                count_transformed(encoder, address, column.geometry, mask, counts)
        else:
            for other in _alternatives(column, method):
                size = encoder.encode(address, column.geometry, other, column.models.address(other.model))
                self._sizes[other] = self._sizes.get(other, 0) + (size or column.layout.block_bytes)
        if self._looks < LOOKS:
            return
        if method.place == codec.HUFFMAN:
            column.method = _better_table(column.models, method, self._counts)
        else:
            best = min(self._sizes, key=lambda other: self._sizes[other])
            if self._sizes[best] < BETTER * self._sizes.get(method, 0):
                column.method = best
            if method.mask & codec.SPARSE and len(column.models) < MOST_REFERENCES:
                # Backgrounds change: what is seen now is one for blocks to come, if it serves them.
                column.models.add(REFERENCE, column.unit_at(address))
        self._looks = 0
        self._counts.clear()
        self._sizes.clear()


def _alternatives(column: Column, method: Method) -> Iterator[Method]:
    """What a block may be coded with instead, by the same coder."""
    if method.mask & codec.SPARSE:
        yield from (replace(method, model=number) for number in column.models.of(REFERENCE))
    else:
        yield from (replace(method, mask=mask) for mask in _whole_masks(column.layout))


def _better_table(models: Models, method: Method, counted: dict[int, Ints]) -> Method:
    """The transform and table that suit what was seen best; a new table where it is worth it."""
    kept = huffman.coded_bytes(counted[method.mask], models.made_from[method.model][1])
    mask = min(counted, key=lambda mask: huffman.least_bytes(counted[mask]))
    tables = [(number, models.made_from[number][1]) for number in models.of(TABLE)]
    size, number = min((huffman.coded_bytes(counted[mask], lengths), number) for number, lengths in tables)
    if not models.full:
        fresh = huffman.code_lengths(counted[mask])
        if huffman.coded_bytes(counted[mask], fresh) < BETTER * min(size, kept):
            return replace(method, mask=mask, model=models.add(TABLE, fresh))
    return replace(method, mask=mask, model=number) if size < BETTER * kept else method
