"""A TorchRL storage that keeps each observation once: ``("next", key)`` is the next row's ``key``, not a copy of it.

>>> from rlmem.torchrl import CompactStorage  # doctest: +SKIP
>>> buffer = ReplayBuffer(storage=CompactStorage(1_000_000), batch_size=256)  # doctest: +SKIP
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.context import get_spawning_popen
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tensordict import TensorDict, TensorDictBase, is_non_tensor, is_tensor_collection
from torchrl.data.replay_buffers.checkpointers import StorageCheckpointerBase
from torchrl.data.replay_buffers.storages import Storage, TensorStorage

from rlmem.buffers import files
from rlmem.buffers.batch import Batches
from rlmem.buffers.layout import Layout
from rlmem.buffers.options import Options
from rlmem.buffers.packing import Packed, pack, unpack
from rlmem.buffers.store import Store
from rlmem.buffers.text import fill_text
from rlmem.errors import AnalysisError, UsageError, did_you_mean

Array = npt.NDArray[Any]
Key = tuple[str, ...]
NEXT = "next"
#: Found under "next" as well, and yet not an observation.
PLAIN = frozenset({"reward", "done", "terminated", "truncated"})
CPU = torch.device("cpu")
FILE = "storage.rlmem"
#: What stands in for a dtype numpy does not have, such as bfloat16: the same bytes.
STAND_IN = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _numpy_kind(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself where numpy has it, or one of its size."""
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return STAND_IN[dtype.itemsize]
    return dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A tensor of a transition."""

    key: Key
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """As options name it."""
        return ".".join(self.key)

    @property
    def plain(self) -> list[Any]:
        """As a file keeps it."""
        return [list(self.key), list(self.shape), str(self.dtype).removeprefix("torch.")]

    @property
    def column(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Its place in a store, whose arrays have at least one axis."""
        return self.shape or (1,), torch.empty(0, dtype=_numpy_kind(self.dtype)).numpy().dtype

    def tensor(self, array: Array, lead: Sequence[int]) -> torch.Tensor:
        """Stored bytes as they were given."""
        return torch.from_numpy(array).view(self.dtype).reshape((*lead, *self.shape))


def _parts(data: TensorDictBase, key: Key = ()) -> Iterator[tuple[Key, Any]]:
    """The tensordict and every one in it, and every tensor, by key."""
    yield key, data
    for name, value in data.items():
        if isinstance(value, TensorDictBase) and not is_non_tensor(value):
            yield from _parts(value, (*key, name))
        elif is_tensor_collection(value) or getattr(value, "layout", None) is not torch.strided or value.is_nested:
            raise UsageError(
                f"{'.'.join((*key, name))} is a {type(value).__name__}: CompactStorage keeps dense tensors only"
            )
        else:
            yield (*key, name), value


class Transitions:
    """Tensordicts of one structure in a ring: observations in a store, everything else in tensors."""

    def __init__(
        self, trees: Mapping[Key, tuple[int, ...]], leaves: Sequence[Leaf], observed: Sequence[Key], rows: int
    ) -> None:
        self.trees, self.leaves, self.rows = dict(trees), {leaf.key: leaf for leaf in leaves}, rows
        self.observed = tuple(observed)
        paired = {*self.observed, *((NEXT, *key) for key in self.observed)}
        # Empty, not zero: memory that is not written to is not taken.
        self.fields = {
            leaf.key: torch.empty((rows, *leaf.shape), dtype=leaf.dtype) for leaf in leaves if leaf.key not in paired
        }
        self.batches = Batches()
        self.store: Store

    @classmethod
    def like(
        cls, data: TensorDictBase, keys: Sequence[Key] | None, rows: int, n_envs: int, options: Options
    ) -> Transitions:
        """Room for entries such as those of ``data``, whose first axis counts them."""
        trees, leaves = {}, []
        for key, value in _parts(data):
            if isinstance(value, TensorDictBase):
                trees[key] = tuple(value.batch_size[1:])
            else:
                leaves.append(Leaf(key=key, shape=tuple(value.shape[1:]), dtype=value.dtype))
        made = cls(trees, leaves, _observed(leaves, keys), rows)
        columns = {made.leaves[key].name: made.leaves[key].column for key in made.observed}
        if len(columns) < len(made.observed):
            raise UsageError(f"two keys are called the same, joined with dots: {', '.join(columns)}")
        options.check_keys({name: Layout(shape=shape, dtype=dtype) for name, (shape, dtype) in columns.items()})
        made.store = Store(rows // n_envs, columns, n_envs, options)
        return made

    def __len__(self) -> int:
        return self.store.rows.filled * self.store.n_envs

    @property
    def start(self) -> int:
        """Where the next entry belongs."""
        return self.store.rows.pos * self.store.n_envs

    def write(self, data: TensorDictBase) -> None:
        """Put entries in, the first axis counting them."""
        given = {key: value for key, value in _parts(data) if not isinstance(value, TensorDictBase)}
        self._check(given)
        store, n = self.store, self.store.n_envs
        columns = []
        for key in self.observed:
            leaf = self.leaves[key]
            lines = (-1, n, *leaf.column[0])
            columns.append((leaf.name, [_array(given[k]).reshape(lines) for k in (key, (NEXT, *key))]))
        with store.lock:
            start, done = self.start, 0
            try:
                for row in range(len(data) // n):
                    store.add(
                        {name: pair[0][row] for name, pair in columns}, {name: pair[1][row] for name, pair in columns}
                    )
                    done += n
            finally:
                # Also when a disk is full: what was taken is whole. Of what went round more than once, the last counts.
                first = max(done - self.rows, 0)
                at = (start + torch.arange(first, done)) % self.rows
                for key, field in self.fields.items():
                    field[at] = given[key][first:done].to(CPU)

    def _check(self, given: Mapping[Key, torch.Tensor]) -> None:
        if given.keys() != self.leaves.keys():
            extra, missing = (
                [".".join(key) for key in some]
                for some in (given.keys() - self.leaves.keys(), self.leaves.keys() - given.keys())
            )
            told = [
                f"{', '.join(sorted(some))} {what}"
                for some, what in ((extra, "is new"), (missing, "is missing"))
                if some
            ]
            raise UsageError(f"every entry has to have the keys of the first one: {' and '.join(told)}")
        for key, value in given.items():
            leaf = self.leaves[key]
            if tuple(value.shape[1:]) != leaf.shape or value.dtype != leaf.dtype:
                raise UsageError(
                    f"{leaf.name} is {tuple(value.shape[1:])} {value.dtype}, where it was {leaf.shape} {leaf.dtype} at first"
                )

    def read(self, index: Array, lead: tuple[int, ...]) -> TensorDict:
        """Entries by number, as a tensordict of the shape ``lead``."""
        with self.store.lock:
            rows, envs = np.divmod(index, self.store.n_envs)
            now, after = (
                {name: self.batches.array(f"{which}.{name}", (index.size, *c.layout.shape), c.layout.dtype)
                 for name, c in self.store.columns.items()} for which in ("now", "after")
            )  # fmt: skip
            self.store.gather(rows, envs, now, after)
            at = torch.from_numpy(index)
            tensors = {key: field[at].reshape((*lead, *field.shape[1:])) for key, field in self.fields.items()}
        for key in self.observed:
            leaf = self.leaves[key]
            for full, batch in ((key, now), ((NEXT, *key), after)):
                tensors[full] = leaf.tensor(batch[leaf.name], lead)
        return self._together(tensors, lead)

    def whole(self) -> TensorDict:
        """Everything held. Observations are only read as far as something is done with them."""
        held = len(self)
        tensors = {key: field[:held] for key, field in self.fields.items()}
        for key in self.observed:
            for full in (key, (NEXT, *key)):
                leaf = self.leaves[full]
                tensors[full] = Unread(self._reader(leaf, following=full is not key), (held, *leaf.shape), leaf.dtype)
        return self._together(tensors, (held,))

    def _reader(self, leaf: Leaf, *, following: bool) -> Callable[[Array], torch.Tensor]:
        """What reads one key of some entries."""
        name = ".".join(leaf.key[1:]) if following else leaf.name

        def read(index: Array) -> torch.Tensor:
            shape, dtype = leaf.column
            batch = {name: np.empty((index.size, *shape), dtype)}
            rows, envs = np.divmod(index, self.store.n_envs)
            self.store.gather(rows, envs, None if following else batch, batch if following else None)
            return leaf.tensor(batch[name], index.shape)

        return read

    def _together(self, tensors: Mapping[Key, torch.Tensor], lead: tuple[int, ...]) -> TensorDict:
        trees: dict[Key, dict[str, Any]] = {key: {} for key in self.trees}
        for key in self.leaves:
            trees[key[:-1]][key[-1]] = tensors[key]
        made = TensorDict()
        # A tree stands after the one it is in.
        for key, tail in reversed(self.trees.items()):
            made = TensorDict(trees[key], batch_size=(*lead, *tail), device=CPU)
            if key:
                trees[key[:-1]][key[-1]] = made
        return made

    def packed(self) -> Packed:
        """Everything as plain values and arrays; hold the lock while they are in use."""
        stored = pack(self.store)
        description = {
            "kind": "CompactStorage",
            "rows": self.rows,
            "trees": [[list(key), list(tail)] for key, tail in self.trees.items()],
            "leaves": [leaf.plain for leaf in self.leaves.values()],
            "observed": [list(key) for key in self.observed],
            "store": stored.description,
        }
        fields = [(".".join(key), _bytes(field[: len(self)])) for key, field in self.fields.items()]
        return Packed(description, [*fields, *stored.arrays])

    @classmethod
    def unpacked(cls, packed: Packed, options: Options) -> Transitions:
        """From what ``packed`` described."""
        d = packed.description
        leaves = [
            Leaf(key=tuple(key), shape=tuple(shape), dtype=getattr(torch, dtype)) for key, shape, dtype in d["leaves"]
        ]
        made = cls(
            {tuple(key): tuple(tail) for key, tail in d["trees"]},
            leaves,
            [tuple(key) for key in d["observed"]],
            d["rows"],
        )
        count = len(made.fields)
        for field, (_, kept) in zip(made.fields.values(), packed.arrays[:count], strict=True):
            _bytes(field)[: kept.size] = kept
        made.store = unpack(Packed({**d["store"], "options": asdict(options)}, packed.arrays[count:]))
        return made


def _observed(leaves: Sequence[Leaf], declared: Sequence[Key] | None) -> list[Key]:
    """Keys that are there under "next" as well, with the same shape and dtype."""
    known = {leaf.key: leaf for leaf in leaves}

    def pairs(key: Key) -> bool:
        leaf, following = known.get(key), known.get((NEXT, *key))
        return (
            leaf is not None
            and following is not None
            and (leaf.shape, leaf.dtype) == (following.shape, following.dtype)
        )

    found = [key for key in known if key[0] != NEXT and key[-1] not in PLAIN and pairs(key)]
    if declared is None:
        if not found:
            raise UsageError(
                "there is no key that is under 'next' as well, with the same shape and dtype: nothing to keep once"
            )
        return found
    for key in declared:
        if not pairs(key):
            near = did_you_mean(".".join(key), [".".join(one) for one in found])
            raise UsageError(
                f"keys: {'.'.join(key)} is not there both as it is and under 'next', in one shape and dtype{near}"
            )
    return list(declared)


def _array(value: torch.Tensor) -> Array:
    dense = value.detach().to(CPU).resolve_conj().resolve_neg().contiguous()
    return dense.view(_numpy_kind(dense.dtype)).numpy()


def _bytes(value: torch.Tensor) -> Array:
    """A tensor's memory."""
    return value.reshape(-1).view(torch.uint8).numpy() if value.numel() else np.empty(0, np.uint8)


class Unread(torch.Tensor):
    """A key of a whole storage. Samplers ask for everything and then look at one key: the others need not be read.

    It has a shape and a dtype; an index reads the rows it names, anything else reads them all.
    """

    _read: Callable[[Array], torch.Tensor]

    @staticmethod
    def __new__(cls, read: Callable[[Array], torch.Tensor], shape: tuple[int, ...], dtype: torch.dtype) -> Unread:
        """A tensor without memory."""
        made = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype)
        made._read = read
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Read what is needed, then go on with real tensors."""
        if func in _ABOUT:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **(kwargs or {}))
        if func is torch.Tensor.__getitem__ and isinstance(args[0], cls):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if (
                index
                and index[0] is not Ellipsis
                and index[0] is not None
                and not (torch.is_tensor(index[0]) and index[0].ndim > 1)
            ):
                rows = torch.arange(args[0].shape[0])[index[0]]
                return args[0]._rows(rows)[(slice(None),) * rows.ndim + index[1:]]
        return func(*_all_read(args), **_all_read(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The same for what comes from inside torch."""
        return func(*_all_read(args), **_all_read(kwargs or {}))

    def _rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Some rows, or with a single number one."""
        read = self._read(np.ascontiguousarray(rows.reshape(-1).numpy()))
        return read if rows.ndim else read[0]


#: What can be said without reading.
_ABOUT = frozenset(
    {
        *(getattr(torch.Tensor, name).__get__ for name in ("shape", "dtype", "device", "ndim", "layout", "is_nested")),
        *(getattr(torch.Tensor, name) for name in ("size", "dim", "numel", "__len__", "is_shared", "element_size")),
    }
)


def _all_read(given: Any) -> Any:
    if isinstance(given, Unread):
        with torch._C.DisableTorchFunctionSubclass():
            return given._rows(torch.arange(given.shape[0]))
    if isinstance(given, dict):
        return {key: _all_read(value) for key, value in given.items()}
    return type(given)(_all_read(value) for value in given) if type(given) in (tuple, list) else given


class Checkpointer(StorageCheckpointerBase):
    """``dumps`` and ``loads``: one file in the folder TorchRL names."""

    def dumps(self, storage: CompactStorage, path: str | os.PathLike[str]) -> None:
        """Write what is in use."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        held = storage._held
        if held is None:
            raise AnalysisError("there is nothing to save yet: this storage has never been written to")
        with held.store.lock:
            files.save(folder / FILE, held.packed())

    def loads(self, storage: CompactStorage, path: str | os.PathLike[str]) -> None:
        """Put a file's content in place of what the storage holds, which is let go first: never two at a time."""
        file = Path(path) / FILE
        files.verify(file)
        storage._check_kind(files.describe(file))
        storage._held = None
        storage._take(files.load(file))


class CompactStorage(TensorStorage):
    """A storage for TorchRL's replay buffers that keeps an observation and its ``("next", …)`` twin once.

    What comes out is what went in, bit for bit, at ends and truncations as well. Entries have to come in ring order, as
    ``RoundRobinWriter`` and ``TensorDictRoundRobinWriter`` write them; they live on the CPU.

    :param max_size: entries it can hold.
    :param keys: what is kept once; by default every key that is under ``"next"`` as well, with the same shape and dtype
        (reward, done, terminated and truncated apart).
    :param n_envs: 1 where entries follow each other in time. Where every ``extend`` brings one step of several envs, or
        several such steps one after another, the number of envs: entries ``n_envs`` apart then follow each other.
    :param codec: ``"none"``, ``"auto"`` (chosen from the data), ``"lz4"``, ``"zstd"``, ``"huffman"``, or a dict of them by key. Lossless.
    :param stack: frames in a stack, or steps in a sliding window: ``"auto"`` recognises them, a number declares them,
        ``None`` stores observations whole; or a dict by key.
    :param stack_axis: the axis they are stacked along, for a declared stack.
    :param budget: bytes of observations that may stay in RAM (``"8GiB"``); the oldest go to ``spill`` beyond it.
    :param spill: a folder on a disk.
    :param speed: the slowest sampling ``codec="auto"`` may choose, as a share of a plain storage's.
    :param threads: threads a batch is assembled by; up to four by default.

    A key inside another is named by a tuple, or with a dot: ``("agents", "observation")``, ``"agents.observation"``.
    """

    _default_checkpointer = Checkpointer
    supports_conditional_update = False

    def __init__(
        self,
        max_size: int,
        *,
        keys: Sequence[str | Key] | None = None,
        n_envs: int = 1,
        codec: str | Mapping[Any, str] = "none",
        stack: int | str | Mapping[Any, int | str | None] | None = "auto",
        stack_axis: int | str | Mapping[Any, int | str] = "auto",
        budget: int | str | None = None,
        spill: str | os.PathLike[str] | None = None,
        speed: float = 0.4,
        threads: int | None = None,
    ) -> None:
        per_key = {"codec": codec, "stack": stack, "stack_axis": stack_axis}
        self.options = Options.checked(
            budget=budget, spill=spill, speed=speed, threads=threads,
            **{name: _by_name(value) for name, value in per_key.items()},
        )  # fmt: skip
        if max_size < 1:
            raise UsageError(f"max_size={max_size} cannot hold anything")
        if n_envs < 1 or max_size % n_envs:
            raise UsageError(f"max_size={max_size} does not hold whole steps of n_envs={n_envs} environments")
        Storage.__init__(self, max_size)
        self.ndim, self.n_envs, self.device = 1, int(n_envs), CPU
        self._last_cursor: int | None = None
        self._keys = (
            None if keys is None else [tuple(key.split(".")) if isinstance(key, str) else tuple(key) for key in keys]
        )
        self._held: Transitions | None = None

    # -- TorchRL's own face ------------------------------------------------------------------------------------------

    @property
    def initialized(self) -> bool:
        """Whether anything was ever written."""
        return self._held is not None

    @property
    def _len(self) -> int:
        return 0 if self._held is None else len(self._held)

    def __len__(self) -> int:
        return self._len

    @property
    def _total_shape(self) -> torch.Size | None:
        return torch.Size([self.max_size]) if self.initialized else None

    def set(self, cursor: Any, data: Any, *, set_cursor: bool = True) -> None:
        """Write entries where the last ones ended."""
        if not set_cursor:
            raise UsageError(
                "entries of a CompactStorage cannot be assigned to: each is shared with its neighbour; use add() and extend()"
            )
        data = torch.stack(data) if isinstance(data, list) and data else data
        if not isinstance(data, TensorDictBase):
            raise UsageError(f"a CompactStorage keeps TensorDicts, not {type(data).__name__}")
        single = isinstance(cursor, (int, np.integer)) or (hasattr(cursor, "ndim") and cursor.ndim == 0)
        if single:
            data = data.unsqueeze(0)
        index = np.arange(self.max_size)[cursor] if isinstance(cursor, slice) else _numbers(cursor)
        if not index.size:
            return
        self._check_order(index.reshape(-1), data)
        if self._held is None:
            self._held = Transitions.like(data, self._keys, self.max_size, self.n_envs, self.options)
        self._held.write(data)
        self._changed(int(index.reshape(-1)[-1]))

    def _check_order(self, index: Array, data: TensorDictBase) -> None:
        start = 0 if self._held is None else self._held.start
        if not data.ndim or index.size != len(data):
            raise UsageError(f"{index.size} places for {len(data) if data.ndim else 0} entries")
        if not np.array_equal(index, (start + np.arange(index.size)) % self.max_size):
            raise UsageError(
                f"a CompactStorage is written in ring order, here from {start} on, not at {index[0]}: use RoundRobinWriter "
                "or TensorDictRoundRobinWriter (after a write that failed, empty() the buffer or set its writer's cursor back)"
            )
        if index.size % self.n_envs:
            raise UsageError(f"{index.size} entries are not whole steps of n_envs={self.n_envs} environments")

    def _changed(self, cursor: int | None) -> None:
        """What TorchRL's samplers want to know about the last write; older versions ask for less."""
        self._last_cursor = cursor
        for name, arguments in (("_set_last_cursor", (cursor,)), ("_bump_mutation_revision", ())):
            if hasattr(self, name):
                getattr(self, name)(*arguments)

    def get(self, index: Any) -> TensorDict:
        """Entries by number, slice, mask or tensor of numbers."""
        if isinstance(index, tuple):
            if len(index) != 1:
                raise UsageError("a CompactStorage has one axis to index")
            index = index[0]
        if self._held is None:
            raise RuntimeError("Cannot get elements out of a non-initialized storage.")
        held = len(self)
        if isinstance(index, slice):
            if index.indices(held) == (0, held, 1):
                return self._held.whole()
            chosen = np.arange(held)[index]
        else:
            chosen = _numbers(index)
            if chosen.dtype == bool:
                chosen = np.arange(held)[chosen]
            elif chosen.size and not -held <= chosen.min() <= chosen.max() < held:
                raise IndexError(f"index {chosen.max()} is out of bounds for a storage of {held}")
        numbers = np.ascontiguousarray(chosen.reshape(-1), np.int64)
        return self._held.read(np.where(numbers < 0, numbers + held, numbers), chosen.shape)

    def _empty(self) -> None:
        if self._held is not None:
            self._held.store.clear()
        self._changed(None)

    def __repr__(self) -> str:
        fill = fill_text(
            type(self).__name__, len(self), self.max_size, self.nbytes,
            n_envs=self.n_envs, spilled_nbytes=self.spilled_nbytes,
        )  # fmt: skip
        return f"<{fill}>"

    # -- saving ------------------------------------------------------------------------------------------------------

    def _check_kind(self, d: Mapping[str, Any]) -> None:
        if d.get("kind") != "CompactStorage":
            raise AnalysisError(f"this is a saved {d.get('kind')}, not a CompactStorage")
        held, mine = (d["rows"], d["store"]["n_envs"]), (self.max_size, self.n_envs)
        if held != mine:
            raise AnalysisError(
                f"this is a saved storage of {held[0]} entries and n_envs={held[1]}, not {mine[0]} and {mine[1]}"
            )

    def _take(self, packed: Packed) -> None:
        self._check_kind(packed.description)
        self._held = Transitions.unpacked(packed, self.options)
        self._changed((self._held.start - 1) % self.max_size if len(self) else None)

    def state_dict(self) -> dict[str, Any]:
        """Everything as text and tensors: what ``torch.load`` takes with ``weights_only``."""
        if self._held is None:
            return {"description": None, "arrays": []}
        with self._held.store.lock:
            packed = self._held.packed()
            listed = [[name, array.dtype.str, list(array.shape)] for name, array in packed.arrays]
            lines = [torch.tensor(np.ascontiguousarray(array).reshape(-1).view(np.uint8)) for _, array in packed.arrays]
        return {"description": json.dumps([packed.description, listed]), "arrays": lines}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Put it in place of what this storage holds."""
        if state_dict["description"] is None:
            self._held = None
            self._changed(None)
            return
        description, listed = json.loads(state_dict["description"])
        arrays = [
            (name, line.numpy().copy().view(np.dtype(dtype)).reshape(shape))
            for (name, dtype, shape), line in zip(listed, state_dict["arrays"], strict=True)
        ]
        self._take(Packed(description, arrays))

    def __getstate__(self) -> dict[str, Any]:
        if get_spawning_popen() is not None:
            raise AnalysisError("a CompactStorage is in the memory of one process and cannot be shared with others")
        state = Storage.__getstate__(self)
        if self._held is not None:
            with self._held.store.lock:
                state["_held"] = self._held.packed().checked()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        held = state.pop("_held", None)
        Storage.__setstate__(self, state)
        self._held = None if held is None else Transitions.unpacked(Packed.verified(held), self.options)

    # -- accounting --------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of RAM the entries take now, with the tables that find them."""
        return 0 if self._held is None else self._held.store.nbytes + self._field_bytes * len(self) // self.max_size

    @property
    def reserved_nbytes(self) -> int:
        """Bytes asked of the system so far; observations ask for theirs as they come."""
        return 0 if self._held is None else self._held.store.reserved_nbytes + self._field_bytes

    @property
    def spilled_nbytes(self) -> int:
        """Bytes on disk."""
        return 0 if self._held is None else self._held.store.spilled_nbytes

    @property
    def bytes_per_transition(self) -> float:
        """``nbytes`` by the entries held; 0 when there are none."""
        return self.nbytes / len(self) if len(self) else 0.0

    @property
    def _field_bytes(self) -> int:
        return 0 if self._held is None else sum(field.nbytes for field in self._held.fields.values())

    def describe(self) -> dict[str, Any]:
        """What it holds and how each key is stored."""
        keys, held = {}, self._held
        for leaf in () if held is None else map(held.leaves.__getitem__, held.observed):
            assert held is not None
            column = held.store.columns[leaf.name]
            keys[leaf.name] = {
                "shape": list(leaf.shape),
                "dtype": str(leaf.dtype).removeprefix("torch."),
                "stack": column.layout.depth,
                "stack_axis": column.layout.axis if column.layout.depth > 1 else None,
                "codec": column.method.name if column.method else "none",
                "nbytes": column.nbytes,
                "spilled_nbytes": column.spilled_nbytes,
            }
        return {
            "transitions": len(self),
            "capacity": self.max_size,
            "nbytes": self.nbytes,
            "reserved_nbytes": self.reserved_nbytes,
            "spilled_nbytes": self.spilled_nbytes,
            "bytes_per_transition": self.bytes_per_transition,
            "budget": self.options.budget,
            "keys": keys,
        }


def _numbers(index: Any) -> Array:
    return np.asarray(index.cpu() if isinstance(index, torch.Tensor) else index)


def _by_name(value: Any) -> Any:
    """Options by key, the keys joined as a store names them."""
    if not isinstance(value, Mapping):
        return value
    return {key if isinstance(key, str) else ".".join(key): one for key, one in value.items()}
