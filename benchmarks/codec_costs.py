"""The constants of ``rlmem.buffers.costs``, measured: what coding and decoding a block costs, by coder and transform.

    python benchmarks/codec_costs.py

Blocks of several sizes from the recordings of ``benchmarks/buffers.py`` (Atari games, a robot's camera, with noise and
without) are coded and decoded again and again in one thread; a line is fitted for each coder: so much a block, so much
for each byte that comes out, so much for each coded byte. Run ``benchmarks/buffers.py`` before: it makes the recordings.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]

import numpy as np  # noqa: E402  # the path is set just above
from buffer_bench.workloads import RECORDED  # noqa: E402  # likewise
from numba import carray, int64  # noqa: E402  # likewise
from rich.console import Console  # noqa: E402  # likewise
from rich.table import Table  # noqa: E402  # likewise

from rlmem.buffers import codec, costs, huffman, sparse  # noqa: E402  # likewise
from rlmem.buffers.choose import count_transformed, references  # noqa: E402  # likewise
from rlmem.buffers.codec import Encoder, Method, Worker, unpacked  # noqa: E402  # likewise
from rlmem.buffers.layout import Layout  # noqa: E402  # likewise
from rlmem.buffers.models import REFERENCE, TABLE, Models  # noqa: E402  # likewise
from rlmem.buffers.native import at, compiled  # noqa: E402  # likewise
from rlmem.process.calibration import cache_folder  # noqa: E402  # likewise

BLOCKS = 24
ROUNDS = 15
#: What calling costs here, and in a buffer does not: addresses of arrays, arguments.
CALL_NS = 1_500
NAMES = {codec.STORED: "none", codec.LZ4: "lz4", codec.ZSTD: "zstd", codec.HUFFMAN: "huffman"}


@compiled(int64(int64, int64, int64, int64, int64, int64[::1], int64, int64, int64))
def undo(
    place: int, mask: int, model: int, address: int, size: int, g: np.ndarray, target: int, worker: int, times: int
) -> int:
    """Decode a block so many times, whatever its transform."""
    work = carray(at(worker), (codec.WORK,), np.int64)
    done = 0
    for _ in range(times):
        if mask & codec.SPARSE:
            runs, end = address, address + size
            if place != codec.STORED:
                runs = work[codec.RUNS]
                end = runs + unpacked(place, address, size, runs, g[codec.K] * g[codec.UNIT], work)
            before = model
            for n in range(g[codec.K]):
                runs = sparse.follow(target + n * g[codec.UNIT], before, g[codec.UNIT], runs, end)
                before = target + n * g[codec.UNIT]
            done += 1
        elif codec.decode(place, mask, model, address, size, g, target, work):
            done += 1
    return done


def blocks(folder: Path) -> Iterator[tuple[str, Layout, np.ndarray]]:
    """Recorded units as blocks of several sizes: name, layout, blocks × bytes."""
    for name in ("pong", "mspacman", "camera", "camera-noise"):
        key = "image" if "camera" in name else "obs"
        unit = RECORDED[name].units[key]
        path = folder / name / f"{key}.bin"
        if not path.is_file():
            raise SystemExit(f"there is no recording {path}; 'python benchmarks/buffers.py --only {name}:sb3' makes it")
        data = np.memmap(path, np.uint8, "r").reshape(-1, int(np.prod(unit.shape)))
        for units in (1, 4, 16):
            layout = Layout(shape=unit.shape, dtype=np.dtype(np.uint8), block=units)
            if layout.block_bytes > 256 << 10:
                continue
            starts = np.linspace(1_000, len(data) - units, BLOCKS).astype(int)
            yield name, layout, np.stack([data[start : start + units].reshape(-1) for start in starts])


def timed(work: Callable[[], None]) -> float:
    """Nanoseconds, the fastest of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        work()
        best = min(best, time.perf_counter_ns() - start)
    return best


def methods(layout: Layout) -> Iterator[Method]:
    """What is measured at a block size."""
    for coder, level in ((codec.LZ4, 1), (codec.ZSTD, 1), (codec.ZSTD, 3)):
        yield Method(place=coder, level=level)
        if layout.block > 1:
            yield Method(place=coder, level=level, mask=codec.SPARSE)
    if layout.block > 1:
        yield Method(place=codec.STORED, mask=codec.SPARSE)
    for mask in (0, codec.LEFT, codec.UP, codec.LEFT | codec.UP):
        yield Method(place=codec.HUFFMAN, mask=mask)


class Timing:
    """The blocks of one recording and size: coded, undone, timed, one after the other as a buffer would."""

    def __init__(self, layout: Layout, data: np.ndarray) -> None:
        self.layout, self.data, self.geometry = layout, data, layout.geometry(1)
        self.encoder, self.worker = Encoder(layout.block_bytes), Worker(layout.block_bytes, 2)
        self.models, self.target = Models(), np.zeros(layout.block_bytes + 64, np.uint8)

    def model(self, method: Method) -> int:
        """The address of what a method needs."""
        if method.place == codec.HUFFMAN:
            counts = np.zeros(256, np.int64)
            for block in self.data:
                count_transformed(self.encoder, block.ctypes.data, self.geometry, method.mask, counts)
            return self.models.address(self.models.add(TABLE, huffman.code_lengths(counts)))
        if method.mask & codec.SPARSE:
            units = self.data.reshape(-1, self.layout.unit_bytes)
            return self.models.address(self.models.add(REFERENCE, list(references(units))[1]))
        return 0

    def row(self, method: Method) -> dict[str, Any] | None:
        """Times and sizes of a block, on average; None where the method does not serve."""
        model, size = self.model(method), self.layout.block_bytes
        starts = [block.ctypes.data for block in self.data]
        coded, runs = [], 0
        for start in starts:
            if method.mask & codec.SPARSE:
                stored = Method(place=codec.STORED, mask=codec.SPARSE)
                runs += self.encoder.encode(start, self.geometry, stored, model)
            got = self.encoder.encode(start, self.geometry, method, model)
            if not 0 < got < codec.WORTH * size:
                return None
            coded.append(np.concatenate([self.encoder.output[:got], np.zeros(codec.SLACK, np.uint8)]))

        def encode() -> None:
            for start in starts:
                self.encoder.encode(start, self.geometry, method, model)

        def decode() -> None:
            for each in coded:
                if not undo(method.place, method.mask, model, each.ctypes.data, each.size - codec.SLACK, self.geometry,
                            self.target.ctypes.data, self.worker.address, 1):  # fmt: skip
                    raise SystemExit(f"{method.name} could not be undone")

        count = len(starts)
        return {
            "place": method.place, "level": method.level, "mask": method.mask, "out": size, "runs": runs / count,
            "coded": sum(each.size - codec.SLACK for each in coded) / count,
            "decode": timed(decode) / count - CALL_NS, "encode": timed(encode) / count - CALL_NS,
        }  # fmt: skip


def measure(folder: Path, console: Console) -> list[dict[str, Any]]:
    """One row for each recording, block size and method."""
    rows = []
    for name, layout, data in blocks(folder):
        timing = Timing(layout, data)
        rows += [row for method in methods(layout) if (row := timing.row(method))]
        console.print(f"measured {name}, blocks of {layout.block}", highlight=False)
    return rows


def fitted(rows: list[dict[str, Any]], what: str, *parts: str) -> list[float]:
    """Constants, none below zero, of a line through the rows: so much each, and so much for each byte of the parts."""
    times = np.array([max(row[what], 1.0) for row in rows])
    matrix = np.array([[1.0, *(row[part] for part in parts)] for row in rows])
    # Between equal absolute errors, which only the largest rows would decide, and equal relative ones.
    weights = times**-0.7
    kept = list(range(matrix.shape[1]))
    while kept:
        answer = np.linalg.lstsq(matrix[:, kept] * weights[:, None], times * weights, rcond=None)[0]
        if (answer >= 0).all():
            return [float(answer[kept.index(n)]) if n in kept else 0.0 for n in range(matrix.shape[1])]
        kept.pop(int(answer.argmin()))
    return [0.0] * matrix.shape[1]


def main() -> int:
    """Measure, fit, show beside what the package has."""
    console = Console(width=140)
    rows = measure(cache_folder() / "bench-buffers" / "seed-0", console)
    table = Table("what", "measured (ns)", "in rlmem.buffers.costs")

    def pick(place: int, mask: int, level: int = 1) -> list[dict[str, Any]]:
        return [row for row in rows if (row["place"], row["mask"], row["level"]) == (place, mask, level)]

    def add(what: str, found: list[float], held: object) -> None:
        table.add_row(what, " · ".join(f"{value:.3g}" for value in found), str(held))

    def general(place: int, what: str, step: list[float], level: int = 1) -> list[float]:
        """LZ4 or Zstandard on whole blocks and on runs; of the latter, what the step before or after it costs is taken off."""
        some = pick(place, 0, level)
        for row in pick(place, codec.SPARSE, level):
            rest = row[what] - step[0] - step[1] * row["runs"] - step[2] * row["out"]
            if rest > row[what] / 5:
                some.append({**row, "out": row["runs"], what: rest})
        return fitted(some, what, "out", "coded")

    plain, runs = pick(codec.HUFFMAN, 0), pick(codec.STORED, codec.SPARSE)
    base = fitted(plain, "decode", "out", "coded")
    add("decode huffman: each · byte out · coded byte", base, costs.DECODE_NS[codec.HUFFMAN])
    for mask, label in ((codec.LEFT, "left"), (codec.UP, "up")):
        some = pick(codec.HUFFMAN, mask)
        extra = [(r["decode"] - base[0] - base[1] * r["out"] - base[2] * r["coded"]) / r["out"] for r in some]
        add(f"undo {label}: byte", [float(np.median(extra))], costs.UNDO_NS[mask])
    follow, tell = fitted(runs, "decode", "runs", "out"), fitted(runs, "encode", "runs", "out")
    add("follow: each · byte of runs · byte of units", follow, (costs.RUNS_NS, costs.NEAR_NS))
    add("tell: each · byte of runs · byte of units", tell, (costs.TELL_RUN_NS, costs.TELL_NS))
    for place in (codec.LZ4, codec.ZSTD):
        add(
            f"decode {NAMES[place]}: each · byte out · coded byte",
            general(place, "decode", follow),
            costs.DECODE_NS[place],
        )
    for place, level in ((codec.LZ4, 1), (codec.ZSTD, 1), (codec.ZSTD, 3)):
        label = f"encode {NAMES[place]} {level}: each · byte in · coded byte"
        add(label, general(place, "encode", tell, level), costs.ENCODE_NS[place, level])
    add("encode huffman: each · byte in · coded byte", fitted(plain, "encode", "out", "coded"),
        costs.ENCODE_NS[codec.HUFFMAN, 1])  # fmt: skip
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
