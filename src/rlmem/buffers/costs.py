"""What sampling and adding cost with a codec, as a share of a plain buffer's speed: a model with constants, not a stopwatch.

The same data gets the same codec on a busy machine and an idle one. ``benchmarks/codec_costs.py`` measures the constants, on
blocks that are in the caches; those of Zstandard and of sparse units are a third higher here, since a buffer's are not, as
``benchmarks/buffers.py`` shows.
"""

from __future__ import annotations

from rlmem.buffers import codec
from rlmem.buffers.codec import Method
from rlmem.buffers.layout import Layout

#: Nanoseconds a byte, on two cores of an AMD EPYC (Zen 4, 2.6 GHz): a plain buffer's fancy index and copy to torch; our
#: copy from a block, in one thread; and a copy inside a core's cache.
PLAIN_NS, COPY_NS, NEAR_NS = 0.16, 0.085, 0.025
#: Decoding: nanoseconds for each block, for each byte that comes out, and for each coded byte, by coder.
DECODE_NS = {
    codec.STORED: (0.0, 0.0, 0.0),
    codec.LZ4: (300.0, 0.03, 0.8),
    codec.ZSTD: (2_000.0, 0.1, 1.5),
    codec.HUFFMAN: (500.0, 0.08, 0.75),
}
#: Undoing a transform, nanoseconds a byte; making a sparse unit, nanoseconds a byte of its runs.
UNDO_NS = {codec.LEFT: 0.08, codec.UP: 0.08, codec.PLANE: 0.08, codec.TIME: 0.08, codec.SHUFFLE: 0.5}
RUNS_NS = 0.8
#: Coding: the same three, by coder and level; and telling what changed, nanoseconds a byte looked at and a byte of runs.
ENCODE_NS = {
    (codec.STORED, 1): (0.0, 0.0, 0.0),
    (codec.LZ4, 1): (500.0, 0.1, 2.6),
    (codec.ZSTD, 1): (5_300.0, 0.16, 1.3),
    (codec.ZSTD, 3): (5_100.0, 0.2, 1.8),
    (codec.HUFFMAN, 1): (500.0, 0.62, 0.0),
}
TELL_NS, TELL_RUN_NS = 0.06, 1.5
#: Adding to a plain buffer: nanoseconds for each row, and for each byte of an observation and the next one.
ADD_NS, ADD_BYTE_NS = 3_900.0, 0.115
#: Handling a block when it is full, nanoseconds.
SEAL_NS = 5_000.0
#: Threads the model counts on; more only help.
THREADS = 2


def sampling_speed(layout: Layout, method: Method | None, unit_bytes: float, run_bytes: float) -> float:
    """Predicted sampling speed as a share of a plain buffer's; ``run_bytes`` is a sparse unit before its coder."""
    wanted = 2 * layout.obs_bytes
    cost = wanted * COPY_NS
    if method is not None:
        # An observation and the next one are depth + 1 units in a row.
        blocks = min(1 + layout.depth / layout.block, layout.depth + 1)
        cost += blocks * _decode_ns(layout, method, unit_bytes, run_bytes)
    return wanted * PLAIN_NS * THREADS / cost


def _decode_ns(layout: Layout, method: Method, unit_bytes: float, run_bytes: float) -> float:
    each, out, coded = DECODE_NS[method.place]
    if method.mask & codec.SPARSE:
        made = min(layout.block, (layout.block + layout.depth) / 2 + 1)
        return (
            each
            + layout.block * (run_bytes * out + unit_bytes * coded)
            + made * (run_bytes * RUNS_NS + layout.unit_bytes * NEAR_NS)
        )
    undo = sum(ns for bit, ns in UNDO_NS.items() if method.mask & bit)
    return each + layout.block_bytes * (out + undo) + layout.block * unit_bytes * coded


def adding_speed(layout: Layout, method: Method | None, unit_bytes: float, run_bytes: float) -> float:
    """Predicted speed of adding as a share of a plain buffer's."""
    plain = ADD_NS + 2 * layout.obs_bytes * ADD_BYTE_NS
    if method is None:
        return 1.0
    each, raw, coded = ENCODE_NS[method.place, method.level]
    if method.mask & codec.SPARSE:
        block = layout.block_bytes * TELL_NS + layout.block * run_bytes * (TELL_RUN_NS + raw)
    else:
        block = layout.block_bytes * raw
    block += SEAL_NS + each + layout.block * unit_bytes * coded
    return plain / (plain + block / layout.block)
