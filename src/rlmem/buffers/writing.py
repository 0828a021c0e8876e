"""How a row gets into a store: put into staging areas, then written by one call of compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rlmem.buffers import kernels
from rlmem.buffers.codec import Bytes, Ints
from rlmem.buffers.column import Column

if TYPE_CHECKING:
    from rlmem.buffers.store import Store

Array = npt.NDArray[Any]


def _shaped(column: Column, staging: Bytes) -> Array:
    """A staging area as the observations it is for."""
    layout = column.layout
    return staging[:, : layout.obs_bytes].view(layout.dtype).reshape(len(staging), *layout.shape)


class Writer:
    """Keeps, for compiled code, the addresses of everything a row touches.

    After a row its next observations are what the following row is compared with, so two areas take turns: there are two
    sets of addresses, used one after the other, and nothing is copied.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._broken = np.ones(store.n_envs, np.uint8)
        self._units = np.zeros(store.n_envs, np.int64)
        self._contexts: list[Ints] = []
        self._places: list[list[tuple[str, Array, Array]]] = []
        self._known: list[int] = []
        self._side = 0
        self._lent: list[tuple[int, Array]] = []
        self._homes: list[int] = []

    def staging(self) -> list[tuple[str, Array, Array]]:
        """Where the next row goes: key, observations, next observations."""
        if not self._places:
            self._prepare()
        if self._lent:  # a row that was refused half-way
            self._return_lent()
        return self._places[self._side]

    def lend(self, index: int, obs: Array) -> None:
        """Read a key's observations where they are, instead of from the staging area; until the row is written.

        They are only compared, mostly: a large picture need not be copied for that. Next observations have to be kept.
        """
        self._contexts[self._side][1 + index, kernels.NOW] = obs.__array_interface__["data"][0]
        self._lent.append((index, obs))

    def commit(self) -> None:
        """Write the row that is in the staging areas."""
        found = kernels.commit(self._contexts[self._side])
        if found:
            if found < 0:
                self._prepare()
                for index, obs in self._lent:
                    self._contexts[self._side][1 + index, kernels.NOW] = obs.__array_interface__["data"][0]
                found = kernels.commit(self._contexts[self._side])
            if found:
                self._keep_aside()
        if self._lent:
            self._return_lent()
        self._side = 1 - self._side

    def _return_lent(self) -> None:
        for index, _ in self._lent:
            self._contexts[self._side][1 + index, kernels.NOW] = self._homes[index]
        self._lent.clear()

    def _keep_aside(self) -> None:
        self.settle()
        columns = list(self._store.columns.values())
        for index, obs in self._lent:
            columns[index].now[:] = obs.reshape(len(obs), -1).view(np.uint8)
        for column in columns:
            column.keep_aside(self._units)

    def _prepare(self) -> None:
        """Make room for more rows."""
        store = self._store
        store.before_more()
        per_row = 2 if store.paired else 1
        heads = store.rows.heads.tolist()
        for column in store.columns.values():
            column.prepare(heads, per_row)
        known = [count for column in store.columns.values() for count in (column.version, column.raw.version)]
        if known != self._known:
            self._known = known
            self._point()

    def _point(self) -> None:
        """Write down where everything is; on both sides."""
        self.settle()
        self._contexts, self._places = [], []
        columns = self._store.columns
        self._homes = [column.now.__array_interface__["data"][0] for column in columns.values()]
        for _ in range(2):
            row = self._row(None, self._broken, self._units)
            self._contexts.append(np.stack((row, *(column.context() for column in columns.values()))))
            self._places.append([(key, _shaped(c, c.now), _shaped(c, c.after)) for key, c in columns.items()])
            for column in columns.values():
                column.turn()

    def _row(self, slot: int | None, broken: Bytes, units: Ints) -> Ints:
        """The first line of what ``kernels.commit`` takes; with a slot the row is numbered already."""
        rows, line = self._store.rows, np.zeros(kernels.CONTEXT, np.int64)
        line[kernels.N_ENVS], line[kernels.PAIRED] = rows.n_envs, self._store.paired
        line[kernels.SLOT], line[kernels.NUMBERED], line[kernels.WORDS] = (
            slot or 0,
            slot is not None,
            rows.anchors.shape[1],
        )
        for place, array in (
            (kernels.BROKEN, broken), (kernels.UNITS, units), (kernels.HEADS, rows.heads), (kernels.STATE, rows.state),
            (kernels.ANCHORS, rows.anchors), (kernels.BITS, rows.bits), (kernels.OLD_ANCHORS, rows.old_anchors),
            (kernels.OLD_BITS, rows.old_bits),
        ):  # fmt: skip
            line[place] = array.__array_interface__["data"][0]
        return line

    def rewrite(self, column: Column, slot: int, units: Ints, broken: Bytes) -> None:
        """Write a row that is numbered already, waiting in a column's staging areas, into that column."""
        paired = self._store.paired
        # Where a row is broken its own unit is still to be written.
        column.prepare((units - broken if paired else units).tolist(), 2 if paired else 1)
        if kernels.commit(np.stack((self._row(slot, broken, units), column.context()))):
            column.keep_aside(units)
        column.turn()

    def settle(self) -> None:
        """Bring the columns' own staging areas up to date with whose turn it is."""
        if self._side:
            for column in self._store.columns.values():
                column.turn()
            self._contexts.reverse()
            self._places.reverse()
            self._side = 0

    def reset(self) -> None:
        """Columns or rows have been replaced or emptied: look again before the next row."""
        self.settle()
        self._known, self._contexts, self._places = [], [], []
