"""A replay buffer for any training loop: numpy in, numpy out, each observation kept once.

What is compiled is imported when a buffer is built, not by every worker that is spawned with the class in its script.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rlmem.buffers import lossy as lossy_codecs
from rlmem.buffers.batch import Batches
from rlmem.buffers.text import fill_text
from rlmem.errors import AnalysisError, UsageError, did_you_mean

if TYPE_CHECKING:
    from rlmem.buffers.packing import Packed

Array = npt.NDArray[Any]
#: The single key of an observation that is not a dict.
ONLY = ""
#: What a batch holds beside its fields.
RESERVED = ("obs", "next_obs", "discount", "weights", "indices")
#: What n-step returns are made from.
REWARD, TERMINATED, TRUNCATED = "reward", "terminated", "truncated"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spec:
    """One array of a transition, for one env; with bounds where they are known."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    bounds: tuple[Array, Array] | None = None

    @property
    def plain(self) -> list[Any]:
        """As a file keeps it."""
        return [list(self.shape), self.dtype.str]


def _spec(name: str, given: Any) -> Spec:
    """``(shape, dtype)``, ``(shape, dtype, low, high)``, or anything with a shape and a dtype: a space, an array."""
    from rlmem.buffers.options import check_dtype

    low, high = getattr(given, "low", None), getattr(given, "high", None)
    shape, dtype = getattr(given, "shape", None), getattr(given, "dtype", None)
    if isinstance(given, (tuple, list)) and len(given) in (2, 4):
        shape, dtype = given[:2]
        low, high = given[2:] if len(given) == 4 else (None, None)
    if shape is None or dtype is None or hasattr(given, "spaces"):
        raise UsageError(f"{name or 'observation'}={given!r} is not a (shape, dtype), nor a space that has one of each")
    try:
        sizes = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
        kind = np.dtype(dtype)
    except (TypeError, ValueError) as problem:
        raise UsageError(f"{name or 'observation'}={given!r} is not a (shape, dtype): {problem}") from None
    if min(sizes, default=1) < 0 or kind.names is not None:
        raise UsageError(f"{name or 'observation'}={given!r} is not the shape and dtype of an array of numbers")
    bounds = None if low is None or high is None else (np.asarray(low), np.asarray(high))
    return Spec(shape=sizes, dtype=check_dtype(name, kind), bounds=bounds)


def _observation(given: Any) -> dict[str, Spec]:
    """The specs of an observation by key; a single one has the key ``ONLY``."""
    parts = given if isinstance(given, Mapping) else getattr(given, "spaces", None)
    if parts is None:
        return {ONLY: _spec(ONLY, given)}
    if not isinstance(parts, Mapping) or not parts or not all(isinstance(key, str) and key for key in parts):
        raise UsageError("observation: a dict has to name its parts, and have some")
    for key, part in parts.items():
        if isinstance(part, Mapping) or hasattr(part, "spaces"):
            raise UsageError(f"observation: {key!r} has parts itself: flatten it first")
    return {key: _spec(key, part) for key, part in parts.items()}


class _Place(NamedTuple):
    """What a value given to ``add`` has to look like."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def fit(self, value: Any) -> Array:
        """The value as an array of this shape; only axes of one may differ."""
        if type(value) is np.ndarray and value.dtype == self.dtype and value.shape == self.shape:
            return value
        try:
            array = np.asarray(value, self.dtype)
        except (TypeError, ValueError, OverflowError) as problem:
            raise UsageError(f"{self.name} is not an array of {self.dtype}: {problem}") from None
        if array.shape == self.shape:
            return array
        if [n for n in array.shape if n != 1] != [n for n in self.shape if n != 1]:
            raise UsageError(f"{self.name} has the shape {array.shape} where {self.shape} is expected, the envs first")
        return array.reshape(self.shape)


class Replay:
    """A ring of transitions of some envs, for a loop of your own.

    >>> replay = Replay(1000, ((4,), "float32"), fields={"action": ((), "int64"), "reward": ((), "float32")})
    >>> replay.add(np.zeros((1, 4)), np.ones((1, 4)), action=[1], reward=[0.5])
    >>> batch = replay.sample(2, np.random.default_rng(0))
    >>> batch["next_obs"].shape, batch["reward"]
    ((2, 4), array([0.5, 0.5], dtype=float32))

    :param capacity: transitions over all envs; rows are ``capacity // n_envs``.
    :param observation: ``(shape, dtype)``, ``(shape, dtype, low, high)``, a Gymnasium space, or a dict of them by key.
    :param n_envs: every ``add`` brings one step of each env, in arrays with the envs first.
    :param fields: what else a transition has, by name; specs as for the observation.
    :param n_steps: n-step returns from the fields ``reward``, ``terminated`` and ``truncated``: ``reward`` is then the
        discounted sum, ``next_obs``, ``terminated`` and ``truncated`` are those it ends with, and ``discount`` is what
        the value of ``next_obs`` counts.
    :param gamma: discount of the n-step returns.
    :param codec: ``"none"``, ``"auto"`` (chosen from the data), ``"lz4"``, ``"zstd"``, ``"huffman"``, or a dict of them by key. Lossless.
    :param stack: frames in a stack, or steps in a sliding window: ``"auto"`` recognises them, a number declares them,
        ``None`` stores observations whole; or a dict by key.
    :param stack_axis: the axis they are stacked along, for a declared stack.
    :param budget: bytes of observations that may stay in RAM (``"8GiB"``); the oldest go to ``spill`` beyond it.
    :param spill: a folder on a disk.
    :param speed: the slowest sampling ``codec="auto"`` may choose, as a share of a plain buffer's.
    :param lossy: ``"float16"``, or ``{"key": "float16" | "uint8"}``: smaller, and no longer equal.
    :param prioritized: proportional prioritised sampling, with ``alpha`` and ``beta``.
    :param threads: threads a batch is assembled by; up to four by default.
    :param seed: seeds the generator ``sample`` draws with when it is given none.
    """

    def __init__(
        self,
        capacity: int,
        observation: Any,
        n_envs: int = 1,
        *,
        fields: Mapping[str, Any] | None = None,
        n_steps: int = 1,
        gamma: float = 0.99,
        codec: str | Mapping[str, str] = "none",
        stack: int | str | Mapping[str, int | str | None] | None = "auto",
        stack_axis: int | str | Mapping[str, int | str] = "auto",
        budget: int | str | None = None,
        spill: str | os.PathLike[str] | None = None,
        speed: float = 0.4,
        lossy: Mapping[str, str] | str | None = None,
        prioritized: bool = False,
        alpha: float = 0.6,
        beta: float = 0.4,
        threads: int | None = None,
        seed: int | None = None,
    ) -> None:
        from rlmem.buffers.layout import Layout
        from rlmem.buffers.options import Options
        from rlmem.buffers.priorities import Priorities
        from rlmem.buffers.store import Store

        options = Options.checked(
            codec=codec, stack=stack, stack_axis=stack_axis, budget=budget, spill=spill, speed=speed, threads=threads
        )
        if capacity < 1:
            raise UsageError(f"capacity={capacity} cannot hold anything")
        if n_envs < 1:
            raise UsageError(f"n_envs={n_envs} is not a number of environments")
        self._given = _observation(observation)
        self._fields = {name: _spec(name, given) for name, given in (fields or {}).items()}
        for name in self._fields:
            if name in RESERVED:
                raise UsageError(f"fields: {name!r} is what a batch calls something else; name it otherwise")
        self.n_envs, self.n_steps, self.gamma = int(n_envs), int(n_steps), float(gamma)
        self._check_n_steps()
        keys = {key: (spec.shape, spec.dtype) for key, spec in self._given.items()}
        options.check_keys({key: Layout(shape=shape, dtype=dtype) for key, (shape, dtype) in keys.items()})
        bounds = {key: spec.bounds for key, spec in self._given.items() if spec.bounds is not None}
        self._lossy = lossy_codecs.for_keys(keys, lossy, bounds)
        # A store's arrays have at least one axis.
        stored = {
            key: (shape or (1,), self._lossy[key].stored if key in self._lossy else dtype)
            for key, (shape, dtype) in keys.items()
        }
        rows = max(int(capacity) // self.n_envs, 1)
        self._store = Store(rows, stored, self.n_envs, options)
        #: What was given with each transition, rows × envs × shape; writing to them is allowed.
        self.fields: dict[str, Array] = {
            name: np.zeros((rows, self.n_envs, *spec.shape), spec.dtype) for name, spec in self._fields.items()
        }
        self.priorities = Priorities(rows * self.n_envs, alpha=alpha, beta=beta) if prioritized else None
        self._rng = np.random.default_rng(seed)
        self._finish()

    def _check_n_steps(self) -> None:
        if self.n_steps < 1:
            raise UsageError(f"n_steps={self.n_steps} is not a number of steps")
        if self.n_steps == 1:
            return
        for name in (REWARD, TERMINATED, TRUNCATED):
            if name not in self._fields:
                raise UsageError(f"n_steps={self.n_steps} needs the field {name!r}")
        for name in (TERMINATED, TRUNCATED):
            if prod(self._fields[name].shape) != 1:
                raise UsageError(
                    f"n_steps={self.n_steps} needs one {name!r} for each env, not {self._fields[name].shape}"
                )

    def _finish(self) -> None:
        """What follows from the rest, after making and after loading."""
        self._batches = Batches()
        self._places = {
            key: _Place(key or "the observation", (self.n_envs, *column.layout.shape), self._given[key].dtype)
            for key, column in self._store.columns.items()
        }
        self._only = self._places.get(ONLY)
        self._field_places = {
            name: _Place(name, (self.n_envs, *spec.shape), spec.dtype) for name, spec in self._fields.items()
        }

    # -- adding and sampling -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._store.rows.filled * self.n_envs

    @property
    def capacity(self) -> int:
        """Transitions it can hold: whole rows of envs."""
        return self._store.rows.capacity * self.n_envs

    def add(self, obs: Any, next_obs: Any, **fields: Any) -> None:
        """Store one step of every env; arrays of ``(n_envs, *shape)``. ``next_obs`` is the true one where episodes end."""
        if fields.keys() != self.fields.keys():
            self._refuse_fields(fields)
        values = [(self.fields[name], place.fit(fields[name])) for name, place in self._field_places.items()]
        now, after = self._parts("obs", obs), self._parts("next_obs", next_obs)
        # Everything has been looked at before anything is written; and where the store refuses, the oldest row stays whole.
        with self._store.lock:
            pos = self._store.rows.pos
            self._store.add(now, after)
            for kept, value in values:
                kept[pos] = value
            if self.priorities is not None:
                self.priorities.add(pos * self.n_envs, self.n_envs)

    def _parts(self, name: str, given: Any) -> dict[str, Array]:
        if self._only is not None:
            part = self._only.fit(given)
            return {ONLY: self._lossy[ONLY].encode(part) if self._lossy else part}
        if not isinstance(given, Mapping) or given.keys() != self._given.keys():
            raise UsageError(f"{name} has to be a dict of {', '.join(self._given)}")
        parts = {key: place.fit(given[key]) for key, place in self._places.items()}
        for key, codec in self._lossy.items():
            parts[key] = codec.encode(parts[key])
        return parts

    def _refuse_fields(self, given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in self.fields:
                raise UsageError(
                    f"there is no field {name!r}{did_you_mean(name, self.fields)}: name it in fields= first"
                )
        raise UsageError(
            f"{', '.join(name for name in self.fields if name not in given)}: missing, a transition has that field"
        )

    def sample(self, batch_size: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
        """A batch drawn evenly, or by priority: ``obs``, ``next_obs`` and the fields.

        With n-step returns also ``discount``; with priorities also ``weights`` and the ``indices`` to update. Its arrays
        are yours as long as you hold them.
        """
        if batch_size < 1:
            raise UsageError(f"batch_size={batch_size} is not a number of transitions")
        rng = self._rng if rng is None else rng
        with self._store.lock:
            if not len(self):
                raise UsageError("there is nothing to sample yet: add something first")
            if self.priorities is None:
                return self._gather(*np.divmod(rng.integers(0, len(self), batch_size), self.n_envs))
            indices, weights = self.priorities.sample(batch_size, len(self), rng)
            return {**self._gather(*np.divmod(indices, self.n_envs)), "weights": weights, "indices": indices}

    def gather(self, rows: Any, envs: Any = 0) -> dict[str, Any]:
        """The transitions of some rows and envs, as ``sample`` would give them; row 0 is the first one ever written to."""
        pair = np.broadcast_arrays(np.atleast_1d(rows), np.atleast_1d(envs))
        with self._store.lock:
            for name, index, end in (("row", pair[0], self._store.rows.filled), ("env", pair[1], self.n_envs)):
                if index.ndim != 1 or index.dtype.kind not in "iu":
                    raise UsageError(f"{name}s have to be whole numbers in one line")
                if index.size and not 0 <= index.min() <= index.max() < end:
                    raise UsageError(f"a {name} is not between 0 and {end - 1}")
            return self._gather(*(np.ascontiguousarray(index, np.int64) for index in pair))

    def update_priorities(self, indices: Any, priorities: Any) -> None:
        """New priorities (for instance absolute TD errors) for the ``indices`` of a batch."""
        if self.priorities is None:
            raise UsageError("this buffer was not made with prioritized=True")
        index = np.asarray(indices)
        with self._store.lock:
            # What was never written has no priority: it could not be read.
            if index.size and not 0 <= index.min() <= index.max() < len(self):
                raise UsageError(f"an index is not between 0 and {len(self) - 1}")
            self.priorities.update(index, np.asarray(priorities))

    def _gather(self, rows: Array, envs: Array) -> dict[str, Any]:
        flat, later = rows * self.n_envs + envs, None
        batch: dict[str, Any] = {name: _lines(value).take(flat, axis=0) for name, value in self.fields.items()}
        if self.n_steps > 1:
            later, batch[REWARD], batch["discount"] = self._n_step(rows, envs)
            for name in (TERMINATED, TRUNCATED):
                batch[name] = _lines(self.fields[name]).take(later * self.n_envs + envs, axis=0)
        now, after = (self._arrays(name, rows.size) for name in ("now", "after"))
        self._store.gather(rows, envs, now, after, later)
        return {"obs": self._decoded(now), "next_obs": self._decoded(after), **batch}

    def _arrays(self, name: str, n: int) -> dict[str, Array]:
        columns = self._store.columns.items()
        return {key: self._batches.array(f"{name}.{key}", (n, *c.layout.shape), c.layout.dtype) for key, c in columns}

    def _decoded(self, batch: dict[str, Array]) -> Any:
        for key, codec in self._lossy.items():
            batch[key] = codec.decode(batch[key])
        for key, spec in self._given.items():
            if not spec.shape:
                batch[key] = batch[key].reshape(-1)
        return batch.get(ONLY, batch)

    def _n_step(self, rows: Array, envs: Array) -> tuple[Array, Array, Array]:
        """The rows n-step transitions end with, their returns and discounts."""
        held, rewards = self._store.rows, self.fields[REWARD]
        ends = [self.fields[name].reshape(held.capacity, self.n_envs) for name in (TERMINATED, TRUNCATED)]
        newest = (held.pos - 1) % held.capacity
        last, live = rows.copy(), np.arange(rows.size)
        returns, discounts = np.zeros((rows.size, *rewards.shape[2:])), np.ones(rows.size)
        for step in range(self.n_steps):
            at, env = (rows[live] + step) % held.capacity, envs[live]
            weight = discounts[live]
            returns[live] += rewards[at, env] * weight.reshape(-1, *(1,) * (returns.ndim - 1))
            discounts[live] = weight * self.gamma
            last[live] = at
            # The newest row is followed by the oldest one: nothing may run on past it.
            on = ~(ends[0][at, env].astype(bool) | ends[1][at, env].astype(bool) | (at == newest))
            live = live[on]
            if not live.size:
                break
        kind = rewards.dtype if rewards.dtype.kind == "f" else np.dtype(np.float32)
        return last, returns.astype(kind), discounts.astype(np.float32)

    def clear(self) -> None:
        """Forget everything held; the memory stays."""
        with self._store.lock:
            self._store.clear()
            if self.priorities is not None:
                self.priorities.clear()

    def resize(self, capacity: int) -> None:
        """Change the capacity, in transitions; the newest rows stay, in rows 0, 1, …"""
        from rlmem.buffers.resizing import resized_rows

        if capacity < 1:
            raise UsageError(f"capacity={capacity} cannot hold anything")
        rows, store = max(int(capacity) // self.n_envs, 1), self._store
        with store.lock:
            kept = store.rows.in_order()[-rows:]
            resized_rows(store, rows)
            for name, value in self.fields.items():
                self.fields[name] = np.zeros((rows, *value.shape[1:]), value.dtype)
                self.fields[name][: kept.size] = value[kept]
            if self.priorities is not None:
                lanes = (kept[:, None] * self.n_envs + np.arange(self.n_envs)).reshape(-1)
                self.priorities = self.priorities.moved(lanes, rows * self.n_envs)

    # -- saving ------------------------------------------------------------------------------------------------------

    def _packed(self) -> Packed:
        """Everything as plain values and arrays, of the rows in use."""
        from rlmem.buffers.packing import Packed, pack

        stored, tree = pack(self._store), self.priorities
        arrays = [(f"field {name}", value[: self._store.rows.filled]) for name, value in self.fields.items()]
        arrays += [
            (f"{which} of {key}", bound)
            for key, kept in self._steps()
            for which, bound in (("low", kept.low), ("high", kept.high))
        ]
        if tree is not None:
            arrays.append(("priorities", tree.values(np.arange(len(self)))))
        description = {
            "kind": type(self).__name__,
            "observation": {key: spec.plain for key, spec in self._given.items()},
            "fields": {name: spec.plain for name, spec in self._fields.items()},
            "lossy": {key: str(kept.stored) for key, kept in self._lossy.items()},
            "n_steps": [self.n_steps, self.gamma],
            "priorities": None if tree is None else [tree.alpha, tree.beta, tree.largest],
            "rng": self._rng.bit_generator.state,
            "store": stored.description,
        }
        return Packed(description, [*arrays, *stored.arrays])

    def _steps(self) -> list[tuple[str, lossy_codecs.Steps]]:
        return [(key, kept) for key, kept in self._lossy.items() if isinstance(kept, lossy_codecs.Steps)]

    def _unpack(self, packed: Packed) -> None:
        from rlmem.buffers.packing import Packed, unpack
        from rlmem.buffers.priorities import Priorities

        d, arrays = packed.description, iter(packed.arrays)
        if d.get("kind") != type(self).__name__:
            raise AnalysisError(f"this file holds a {d.get('kind')}, not a {type(self).__name__}")
        self._given, self._fields = (
            {name: Spec(shape=tuple(shape), dtype=np.dtype(dtype)) for name, (shape, dtype) in d[part].items()}
            for part in ("observation", "fields")
        )
        self.n_envs, (self.n_steps, self.gamma) = d["store"]["n_envs"], d["n_steps"]
        rows, self.fields = d["store"]["capacity"], {}
        for name, spec in self._fields.items():
            self.fields[name] = np.zeros((rows, self.n_envs, *spec.shape), spec.dtype)
            kept = next(arrays)[1]
            self.fields[name][: len(kept)] = kept
        self._lossy = {}
        for key, stored in d["lossy"].items():
            given = self._given[key].dtype
            if stored == "float16":
                self._lossy[key] = lossy_codecs.Half(given=given)
            else:
                self._lossy[key] = lossy_codecs.Steps(given=given, low=next(arrays)[1], high=next(arrays)[1])
        self.priorities = None
        if d["priorities"] is not None:
            alpha, beta, largest = d["priorities"]
            self.priorities = Priorities.of(
                next(arrays)[1], rows * self.n_envs, alpha=alpha, beta=beta, largest=largest
            )
        self._rng = np.random.default_rng()
        self._rng.bit_generator.state = d["rng"]
        self._store = unpack(Packed(d["store"], list(arrays)))
        self._finish()

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the rows in use to a file, streaming; it appears whole or not at all. Returns its size."""
        from rlmem.buffers import files

        with self._store.lock:
            return files.save(path, self._packed())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Replay:
        """A buffer from a file ``save`` wrote: plain values and arrays, no code."""
        from rlmem.buffers import files

        made = cls.__new__(cls)
        made._unpack(files.load(path))
        return made

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Put a file's content in place of what this buffer holds, which is let go first: never two at a time."""
        from rlmem.buffers import files

        with self._store.lock:
            files.verify(path)
            held, mine = files.describe(path), self._packed().description
            same = ("kind", "observation", "fields")
            if any(held.get(part) != mine[part] for part in same) or held["store"]["n_envs"] != self.n_envs:
                raise AnalysisError(f"{os.fspath(path)} holds other observations, fields or envs than this buffer")
            self._store.clear()
            self._store.columns.clear()
            self.fields.clear()
            self._batches.clear()
            self._unpack(files.load(path))

    def __getstate__(self) -> dict[str, Any]:
        with self._store.lock:
            return self._packed().checked()

    def __setstate__(self, state: dict[str, Any]) -> None:
        from rlmem.buffers.packing import Packed

        self._unpack(Packed.verified(state))

    # -- accounting --------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of RAM the experience takes now, with the tables that find it; batches being handed out are not in it."""
        rows = self._store.rows
        lines = sum(value.nbytes * rows.filled // rows.capacity for value in self.fields.values())
        return self._store.nbytes + lines + (self.priorities.nbytes if self.priorities is not None else 0)

    @property
    def reserved_nbytes(self) -> int:
        """Bytes asked of the system so far; observations ask for theirs as they come."""
        lines = sum(value.nbytes for value in self.fields.values())
        return self._store.reserved_nbytes + lines + (self.priorities.nbytes if self.priorities is not None else 0)

    @property
    def spilled_nbytes(self) -> int:
        """Bytes on disk."""
        return self._store.spilled_nbytes

    @property
    def bytes_per_transition(self) -> float:
        """``nbytes`` by the transitions held; 0 when there are none."""
        return self.nbytes / len(self) if len(self) else 0.0

    def describe(self) -> dict[str, Any]:
        """What it holds and how each key is stored."""
        keys = {}
        for key, column in self._store.columns.items():
            layout, lossy = column.layout, self._lossy.get(key)
            keys[key or "observation"] = {
                "shape": list(self._given[key].shape),
                "dtype": str(self._given[key].dtype),
                "stack": layout.depth,
                "stack_axis": layout.axis if layout.depth > 1 else None,
                "codec": column.method.name if column.method else "none",
                "block": layout.block,
                "constant_blocks": column.constant_blocks,
                "nbytes": column.nbytes,
                "spilled_nbytes": column.spilled_nbytes,
                "lossy": lossy.changes if lossy else None,
            }
        return {
            "transitions": len(self),
            "capacity": self.capacity,
            "nbytes": self.nbytes,
            "reserved_nbytes": self.reserved_nbytes,
            "spilled_nbytes": self.spilled_nbytes,
            "bytes_per_transition": self.bytes_per_transition,
            "batch_nbytes": self._batches.nbytes,
            "budget": self._store.options.budget,
            "keys": keys,
            "fields": {
                name: {"shape": list(spec.shape), "dtype": str(spec.dtype)} for name, spec in self._fields.items()
            },
        }

    def __repr__(self) -> str:
        parts = ", ".join(f"{key or 'obs'} {spec.shape} {spec.dtype}" for key, spec in self._given.items())
        fill = fill_text(
            type(self).__name__, len(self), self.capacity, self.nbytes,
            n_envs=self.n_envs, spilled_nbytes=self.spilled_nbytes,
        )  # fmt: skip
        return f"<{fill}: {parts}>"


def _lines(value: Array) -> Array:
    """One line for each transition."""
    return value.reshape(-1, *value.shape[2:])
