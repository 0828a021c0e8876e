"""``buffer.observations`` as an array: read by index as ever, made on the spot, never kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rlmem.buffers.store import Store

Array = npt.NDArray[Any]


class ObservationView:
    """Rows × envs × shape of one key, read from a store."""

    def __init__(self, store: Store, key: str, *, following: bool, flat: bool = False) -> None:
        self._store, self._key, self._following, self._flat = store, key, following, flat
        layout = store.columns[key].layout
        rows, n_envs = store.rows.capacity, store.n_envs
        lead = (rows * n_envs,) if flat else (rows, n_envs)
        self.shape: tuple[int, ...] = (*lead, *layout.shape)
        self.dtype = layout.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of values."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[row] for row in range(len(self)))

    def __getitem__(self, index: Any) -> Array:
        given = index if isinstance(index, tuple) else (index,)
        lead = 1 if self._flat else 2
        pair = given[:2]
        if (
            lead == 2
            and len(pair) == 2
            and all(isinstance(part, np.ndarray) and part.dtype.kind in "iu" for part in pair)
        ):
            chosen = np.broadcast_arrays(*pair)
            rest = given[2:]
            return self._read(chosen[0] % self._store.rows.capacity, chosen[1] % self._store.n_envs, rest)
        if any(part is Ellipsis or part is None for part in given[:lead]):
            return np.asarray(self)[index]
        grid: Array = np.arange(self._store.rows.capacity * self._store.n_envs)
        if not self._flat:
            grid = grid.reshape(self._store.rows.capacity, self._store.n_envs)
        taken = np.asarray(grid[given[:lead]])
        if self._flat:
            envs, rows = np.divmod(taken, self._store.rows.capacity)
        else:
            rows, envs = np.divmod(taken, self._store.n_envs)
        return self._read(rows, envs, given[lead:])

    def _read(self, rows: Array, envs: Array, rest: tuple[Any, ...]) -> Array:
        shape = rows.shape
        out = np.empty((rows.size, *self._store.columns[self._key].layout.shape), self.dtype)
        batch = {self._key: out}
        slots = np.ascontiguousarray(rows.reshape(-1), np.int64)
        lanes = np.ascontiguousarray(envs.reshape(-1), np.int64)
        self._store.gather(slots, lanes, None if self._following else batch, batch if self._following else None)
        made = out.reshape(*shape, *out.shape[1:])
        inside = (slice(None),) * len(shape) + rest
        return made[inside] if rest else made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        made = self[:]
        return made if dtype is None else made.astype(dtype, copy=False)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("stored observations cannot be assigned to: each is shared by several rows; use add()")

    def __repr__(self) -> str:
        return f"<{'next ' if self._following else ''}observations {self.shape} {self.dtype}, stored compactly>"
