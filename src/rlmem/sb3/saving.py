"""Saving, loading, copying and resizing a compact buffer; and what it holds, in bytes."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from rlmem.buffers.batch import Batches
from rlmem.buffers.text import fill_text
from rlmem.errors import AnalysisError, UsageError

if TYPE_CHECKING:
    from rlmem.buffers.packing import Packed

Array = npt.NDArray[Any]
Buffer = TypeVar("Buffer", bound="Saved")


class Saved:
    """A buffer with an ``Observations`` in ``_obs`` and arrays of one line a row beside it."""

    _obs: Any
    buffer_size: int
    n_envs: int
    pos: int
    full: bool
    #: Attributes a file cannot keep; they are None after loading.
    _not_saved: tuple[str, ...] = ()

    def _packed(self) -> Packed:
        """Everything: the store's arrays, our own (rows in use only), and the rest as one pickled array."""
        from rlmem.buffers.packing import Packed, pack

        stored = pack(self._obs.store)
        mine, rest = {}, {}
        for name, value in self.__dict__.items():
            if name in ("_obs", *self._not_saved):
                continue
            if isinstance(value, np.ndarray) and value.dtype != object:
                mine[name] = value
            else:
                rest[name] = value
        used = self.buffer_size if self.full else self.pos
        lines = {
            name: value[:used] if value.shape[:1] == (self.buffer_size,) else value for name, value in mine.items()
        }
        obs = {name: value for name, value in self._obs.__dict__.items() if name not in ("store", "batches", "_quick")}
        other = np.frombuffer(pickle.dumps((rest, obs), protocol=pickle.HIGHEST_PROTOCOL), np.uint8)
        description = {
            "kind": type(self).__name__,
            "spaces": self._spaces(),
            "store": stored.description,
            "lines": [[name, list(value.shape), value.dtype.str] for name, value in mine.items()],
        }
        return Packed(description, [("attributes", other), *lines.items(), *stored.arrays])

    def _unpack(self, packed: Packed) -> None:
        from rlmem.buffers.packing import Packed, unpack
        from rlmem.sb3.base import Observations, _pinned

        d, arrays = packed.description, packed.arrays
        if d["kind"] != type(self).__name__:
            raise AnalysisError(f"this file holds a {d['kind']}, not a {type(self).__name__}")
        rest, obs = pickle.loads(arrays[0][1].tobytes())
        self.__dict__.update(rest, **dict.fromkeys(self._not_saved))
        count = len(d["lines"])
        for (name, shape, dtype), (_, kept) in zip(d["lines"], arrays[1 : 1 + count], strict=True):
            value = np.zeros(shape, np.dtype(dtype))
            value[: len(kept)] = kept
            self.__dict__[name] = value
        self._obs = Observations.__new__(Observations)
        self._obs.__dict__.update(obs)
        self._obs.batches = Batches(_pinned if self._obs.pin else None)
        self._obs.store = unpack(Packed(d["store"], arrays[1 + count :]))

    def _spaces(self) -> str:
        return f"{self.__dict__['observation_space']}, {self.__dict__['action_space']}"

    def save(self, path: str | os.PathLike[str]) -> int:
        """Write the rows in use to a file, streaming; it appears whole or not at all. Returns its size."""
        from rlmem.buffers import files

        with self._obs.store.lock:
            return files.save(path, self._packed())

    @classmethod
    def load(cls: type[Buffer], path: str | os.PathLike[str]) -> Buffer:
        """A buffer from a file ``save`` wrote. Only load files you trust: spaces are kept as pickles."""
        from rlmem.buffers import files

        made = cls.__new__(cls)
        made._unpack(files.load(path))
        return made

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Put a file's content in place of what this buffer holds, which is let go first: never two at a time."""
        from rlmem.buffers import files

        with self._obs.store.lock:
            files.verify(path)
            packed_kind = files.describe(path)
            if packed_kind["kind"] != type(self).__name__ or packed_kind["spaces"] != self._spaces():
                raise AnalysisError(
                    f"{os.fspath(path)} holds a {packed_kind['kind']} of {packed_kind['spaces']}, not a {type(self).__name__} of {self._spaces()}"
                )
            device = self.__dict__.get("device")
            kept = {name: self.__dict__.get(name) for name in self._not_saved}
            self._obs.store.clear()
            self._obs.store.columns.clear()
            self._obs.batches.clear()
            self._unpack(files.load(path))
            self.__dict__.update(kept, device=device)

    def __getstate__(self) -> dict[str, Any]:
        with self._obs.store.lock:
            return self._packed().checked()

    def __setstate__(self, state: dict[str, Any]) -> None:
        from rlmem.buffers.packing import Packed

        self._unpack(Packed.verified(state))

    def resize(self, buffer_size: int) -> None:
        """Change the capacity (in transitions, as at construction); the newest rows stay."""
        from rlmem.buffers.resizing import resized_rows

        rows = max(int(buffer_size) // self.n_envs, 1)
        if buffer_size < 1:
            raise UsageError(f"a buffer of {buffer_size} transitions cannot hold anything")
        store = self._obs.store
        with store.lock:
            order = store.rows.in_order()[-rows:]
            old = self.buffer_size
            resized_rows(store, rows)
            for name, value in list(self.__dict__.items()):
                if isinstance(value, np.ndarray) and value.shape[:1] == (old,):
                    grown = np.zeros((rows, *value.shape[1:]), value.dtype)
                    grown[: order.size] = value[order]
                    self.__dict__[name] = grown
            self.buffer_size = rows
            self.full = order.size == rows
            self.pos = order.size % rows
            self._resized(order)

    def _resized(self, order: Array) -> None:
        """For what depends on the number of rows otherwise; ``order`` are the old rows that became 0, 1, …"""

    # -- accounting --------------------------------------------------------------------------------------------------

    def _lines(self) -> dict[str, Array]:
        return {name: value for name, value in self.__dict__.items() if isinstance(value, np.ndarray)}

    @property
    def nbytes(self) -> int:
        """Bytes of RAM the experience takes now, with the tables that find it; batches being handed out are not in it."""
        used = (self.buffer_size if self.full else self.pos) / self.buffer_size
        lines = sum(
            int(v.nbytes * used) if v.shape[:1] == (self.buffer_size,) else v.nbytes for v in self._lines().values()
        )
        tree = getattr(self, "priorities", None)
        return int(self._obs.store.nbytes) + lines + (tree.nbytes if tree is not None else 0)

    @property
    def reserved_nbytes(self) -> int:
        """Bytes asked of the system so far; observations ask for theirs as they come."""
        tree = getattr(self, "priorities", None)
        return (
            int(self._obs.store.reserved_nbytes)
            + sum(v.nbytes for v in self._lines().values())
            + (tree.nbytes if tree is not None else 0)
        )

    @property
    def bytes_per_transition(self) -> float:
        """``nbytes`` by the transitions held; 0 when there are none."""
        held = (self.buffer_size if self.full else self.pos) * self.n_envs
        return self.nbytes / held if held else 0.0

    def __repr__(self) -> str:
        held = (self.buffer_size if self.full else self.pos) * self.n_envs
        fill = fill_text(
            type(self).__name__, held, self.buffer_size * self.n_envs, self.nbytes,
            n_envs=self.n_envs, spilled_nbytes=self._obs.store.spilled_nbytes,
        )  # fmt: skip
        return f"<{fill}>"

    def describe(self) -> dict[str, Any]:
        """What it holds and how each key is stored."""
        store = self._obs.store
        keys = {}
        for key, column in store.columns.items():
            layout = column.layout
            keys[key or "observation"] = {
                "shape": list(self._obs.given[key][0]),
                "dtype": str(self._obs.given[key][1]),
                "stack": layout.depth,
                "stack_axis": layout.axis if layout.depth > 1 else None,
                "codec": column.method.name if column.method else "none",
                "block": layout.block,
                "constant_blocks": column.constant_blocks,
                "nbytes": column.nbytes,
                "spilled_nbytes": column.spilled_nbytes,
                "lossy": self._obs.lossy[key].changes if key in self._obs.lossy else None,
            }
        return {
            "transitions": (self.buffer_size if self.full else self.pos) * self.n_envs,
            "capacity": self.buffer_size * self.n_envs,
            "nbytes": self.nbytes,
            "reserved_nbytes": self.reserved_nbytes,
            "spilled_nbytes": store.spilled_nbytes,
            "bytes_per_transition": self.bytes_per_transition,
            "batch_nbytes": self._obs.batches.nbytes,
            "budget": store.options.budget,
            "keys": keys,
        }
