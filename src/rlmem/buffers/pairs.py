"""Observations and what follows each of them, in the memory of one array: for loops with an array for either.

>>> obs = Rows((1000, 4), "float32")
>>> next_obs = obs.next
>>> obs[0], next_obs[0], obs[1] = 1, 2, 2
>>> next_obs[[0]].tolist()
[[2.0, 2.0, 2.0, 2.0]]

Needs numpy alone. Both read and write like arrays by their rows and give back copies of the same bits as two arrays would, in
whatever order rows are written: what follows row ``i`` is looked up in row ``i + 1`` only while that row has the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
#: What follows a row was never written, so that it is zero; or it is the next row.
_UNSET, _FOLLOWS = -2, -1
#: Room for what follows and is no row (the ends of episodes) at the beginning, as a share of the rows; it grows.
_SHARE, _LEAST = 32, 64
#: After so many rows it is known whether they follow one another. Where they do not, room for all is made at once.
_TRIED = 512


class Rows:
    """An array of observations; ``next`` is the array of those that follow them."""

    def __init__(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = float) -> None:
        self._rows: Array = np.zeros(shape, dtype)
        rows = len(self._rows)
        self._kept = np.zeros((min(max(rows // _SHARE, _LEAST), rows), *self._rows.shape[1:]), self._rows.dtype)
        self._new: Array = np.zeros((1, *self._rows.shape[1:]), self._rows.dtype)
        self._place = np.full(rows, _UNSET, np.int64)
        self._free: list[int] = []
        self._used = self._written = 0
        #: What follows each row.
        self.next = NextRows(self)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows first."""
        return self._rows.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of every value."""
        return self._rows.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of both arrays, as far as they can be filled by now."""
        return int(self._rows.nbytes + self._kept.nbytes + self._place.nbytes)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[self._checked(index)].copy()

    def __setitem__(self, index: Any, value: Any) -> None:
        for at, one in self._each(index, value):
            self._new[0] = one
            before = at - 1 if at else len(self._rows) - 1
            if self._place[before] == _FOLLOWS and not self._is_new(self._rows, at):
                self._keep(before, self._rows[at])
            self._rows[at] = self._new[0]
            place = int(self._place[before])
            if place >= 0 and self._is_new(self._kept, place):
                self._place[before] = _FOLLOWS
                self._free.append(place)

    def following(self, index: Any) -> Any:
        """What follows rows."""
        index = self._checked(index)
        place, at = self._place[index], np.arange(len(self._rows))[index] if isinstance(index, slice) else index
        if np.ndim(place) == 0:
            if place >= 0:
                return self._kept[place].copy()
            found = self._rows[(int(at) + 1) % len(self._rows)].copy()
            return found if place == _FOLLOWS else np.zeros_like(found)[()]
        numbers = np.flatnonzero(at) if at.dtype.kind == "b" else at
        found = self._rows[(numbers + 1) % len(self._rows)]
        kept = place >= 0
        if kept.any():
            found[kept] = self._kept[place[kept]]
        found[place == _UNSET] = 0
        return found

    def follow(self, index: Any, value: Any) -> None:
        """Say what follows rows."""
        for at, one in self._each(index, value):
            self._new[0] = one
            after = at + 1 if at + 1 < len(self._rows) else 0
            place = int(self._place[at])
            if after != at and self._is_new(self._rows, after):
                self._place[at] = _FOLLOWS
                if place >= 0:
                    self._free.append(place)
            else:
                self._keep(at, self._new[0])
            self._written += 1
            if self._written == _TRIED and 2 * (self._used - len(self._free)) > _TRIED:
                self._make_room(len(self._rows))

    def _is_new(self, array: Array, at: int) -> bool:
        """Whether a row has the bytes of the new one; as bytes, since a NaN is a value like others here."""
        new: bool = array[at].tobytes() == self._new.tobytes()
        return new

    def _keep(self, at: int, value: Any) -> None:
        place = int(self._place[at])
        if place < 0:
            if not self._free and self._used == len(self._kept):
                self._make_room(min(2 * self._used, len(self._rows)))
            place = self._free.pop() if self._free else self._used
            self._used = max(self._used, place + 1)
        self._kept[place] = value
        self._place[at] = place

    def _make_room(self, rows: int) -> None:
        kept = np.zeros((rows, *self._kept.shape[1:]), self._kept.dtype)
        kept[: self._used] = self._kept[: self._used]
        self._kept = kept

    def _each(self, index: Any, value: Any) -> Iterator[tuple[int, Any]]:
        """Row numbers and their values, one by one, as an array would take them."""
        if isinstance(index, (int, np.integer)):
            at = range(len(self._rows))[int(index)]
            yield at, value
            return
        numbers = np.arange(len(self._rows))[self._checked(index)]
        values = np.broadcast_to(np.asarray(value), (*numbers.shape, *self._rows.shape[1:]))
        yield from zip(numbers.ravel().tolist(), values.reshape(-1, *self._rows.shape[1:]), strict=True)

    def _checked(self, index: Any) -> Any:
        if isinstance(index, tuple) or index is None or index is Ellipsis:
            raise TypeError("rows are indexed by row numbers alone: rows[index][...] in place of rows[index, ...]")
        if isinstance(index, (slice, int, np.integer)):
            return index
        found = np.asarray(index)
        return found if found.size else found.astype(np.int64)


class NextRows:
    """What follows each of some rows, read and written like an array of its own."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the rows."""
        return self._rows.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the rows."""
        return self._rows.dtype

    @property
    def nbytes(self) -> int:
        """None beside those of the rows, which say the bytes of both."""
        return 0

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows.following(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._rows.follow(index, value)
