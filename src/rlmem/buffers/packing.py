"""A store as a short description and a list of arrays, and back: what files, pickles and copies are made of."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rlmem.buffers.codec import Method
from rlmem.buffers.column import Column
from rlmem.buffers.layout import Layout
from rlmem.buffers.options import Options
from rlmem.buffers.store import Store
from rlmem.errors import AnalysisError

Array = npt.NDArray[Any]
#: Raised when the description changes; older numbers stay readable.
FORMAT = 2
#: Arrays of a column that have a line for every env.
PER_ENV = ("table", "first", "opened", "sealed", "last", "tops")
ROWS = ("anchors", "bits", "old_anchors", "old_bits", "heads")


class Packed:
    """A description (plain values) and named arrays. The arrays are views: nothing is copied to pack."""

    def __init__(self, description: dict[str, Any], arrays: list[tuple[str, Array]]) -> None:
        self.description, self.arrays = description, arrays

    def checked(self) -> dict[str, Any]:
        """As pickle keeps it, with a checksum for each array."""
        return {
            "rlmem": FORMAT,
            "description": self.description,
            "arrays": self.arrays,
            "sums": [checksum(array) for _, array in self.arrays],
        }

    @classmethod
    def verified(cls, state: dict[str, Any]) -> Packed:
        """From what pickle kept; damage is refused."""
        if state.get("rlmem") not in range(1, FORMAT + 1):
            raise AnalysisError(
                f"this buffer was saved in format {state.get('rlmem')!r}; this version reads up to {FORMAT}"
            )
        for (name, array), kept in zip(state["arrays"], state["sums"], strict=True):
            if checksum(array) != kept:
                raise AnalysisError(f"the saved buffer is damaged: {name} does not match its checksum")
        return cls(state["description"], state["arrays"])


def checksum(array: Array) -> int:
    """CRC-32 of an array's bytes."""
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data) if array.size else 0


def pack(store: Store) -> Packed:
    """Describe a store; hold its lock while the arrays are in use."""
    store.settle()
    arrays: list[tuple[str, Array]] = [(f"rows.{name}", getattr(store.rows, name)) for name in ROWS]
    columns = []
    for index, (key, column) in enumerate(store.columns.items()):
        columns.append({"key": key, **_describe(column, store)})
        arrays += [(f"{index}.{name}", array) for name, array in _arrays(column, store)]
    description = {
        "capacity": store.rows.capacity,
        "n_envs": store.n_envs,
        "paired": store.paired,
        "state": store.rows.state.tolist(),
        "probing": store.probing,
        "options": asdict(store.options),
        "columns": columns,
    }
    return Packed(description, arrays)


def _describe(column: Column, store: Store) -> dict[str, Any]:
    layout = column.layout
    return {
        "shape": list(layout.shape),
        "dtype": layout.dtype.str,
        "depth": layout.depth,
        "axis": layout.axis,
        "block": layout.block,
        "method": asdict(column.method) if column.method else None,
        "raw": column.raw.names,
        "log": column.log.names,
        "raw_segment": column.raw.segment_bytes,
        "log_segment": column.log.segment_bytes,
        "log_live": [[name, live] for name, live in column._log_live.items()],
        "log_open": [column._log_segment, column._log_used],
        "blocks": [column.coded_blocks, column.coded_bytes, column.constant_blocks],
        "prefixes": [[env, start] for env, kept in enumerate(column.prefixes) for start in kept],
        "patterns": list(column.patterns),
        "models": [kind for kind, _ in column.models.made_from],
    }


def _arrays(column: Column, store: Store) -> Iterator[tuple[str, Array]]:
    yield from ((name, getattr(column, name)) for name in PER_ENV)
    yield "marks", column.marks[: store.rows.filled if column.layout.depth > 1 else 1]
    yield from (("pattern", pattern) for pattern in column.patterns.values())
    yield from (("model", source) for _, source in column.models.made_from)
    for kept in column.prefixes:
        yield from (("prefix", stack) for stack in kept.values())
    for which, arena in (("raw", column.raw), ("log", column.log)):
        yield from ((which, arena.data(name)) for name in arena.names)


def unpack(packed: Packed) -> Store:
    """A store from its description; the arrays become its memory."""
    d = packed.description
    keys = {c["key"]: (tuple(c["shape"]), np.dtype(c["dtype"])) for c in d["columns"]}
    store = Store(d["capacity"], keys, d["n_envs"], Options(**d["options"]), paired=d["paired"])
    arrays = iter(packed.arrays)
    for name in ROWS:
        setattr(store.rows, name, np.array(next(arrays)[1]))
    store.rows.state[:] = d["state"]
    store.probing = d["probing"]
    for described in d["columns"]:
        store.columns[described["key"]] = _column(described, store, arrays)
    store.relocated()
    return store


def _column(d: dict[str, Any], store: Store, arrays: Iterator[tuple[str, Array]]) -> Column:
    layout = Layout(
        shape=tuple(d["shape"]), dtype=np.dtype(d["dtype"]), depth=d["depth"], axis=d["axis"], block=d["block"]
    )
    method = Method(**d["method"]) if d["method"] else None
    if (
        method and not method.level
    ):  # format 1 had a Huffman stage of Zstandard's; what it wrote is read as any of its blocks
        method = replace(method, level=1)
    column = store._column(d["key"], layout, method=method)
    for name in PER_ENV:
        setattr(column, name, np.array(next(arrays)[1]))
    marks = next(arrays)[1]
    column.marks[: len(marks)] = marks
    column.geometry = layout.geometry(column.table.shape[1])
    for env in d["patterns"]:
        column.set_pattern(env, np.array(next(arrays)[1]))
    for kind in d.get("models", ()):  # there were none in format 1
        column.models.add(kind, np.array(next(arrays)[1]))
    for env, start in d["prefixes"]:
        column.prefixes[env][start] = np.array(next(arrays)[1])
    for arena, names, size in ((column.raw, d["raw"], d["raw_segment"]), (column.log, d["log"], d["log_segment"])):
        arena.segment_bytes = size
        arena.adopt((name, next(arrays)[1]) for name in names)
    column._log_live = dict(d["log_live"])
    column._log_segment, column._log_used = d["log_open"]
    column.coded_blocks, column.coded_bytes, column.constant_blocks = d["blocks"]
    return column
