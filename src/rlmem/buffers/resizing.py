"""Another capacity for a store, without touching a block: units do not know how many rows there are."""

from __future__ import annotations

import numpy as np

from rlmem.buffers.rows import Rows
from rlmem.buffers.store import Store


def resized_rows(store: Store, capacity: int) -> None:
    """Keep the newest rows, at most ``capacity`` of them, in slots 0, 1, …; blocks of the others go when more comes."""
    old = store.rows
    kept = old.in_order()[-capacity:]
    made = Rows(capacity, old.n_envs)
    units = np.empty((kept.size, old.n_envs), np.int64)
    for env in range(old.n_envs):
        units[:, env] = old.units_of(kept, np.full(kept.size, env))
    made.renumber(units)
    made.heads[:] = old.heads
    for column in store.columns.values():
        if column.layout.depth > 1:
            marks = np.zeros((capacity, old.n_envs), np.uint16)
            marks[: kept.size] = column.marks[kept]
            column.marks = marks
        column.rows = made
        column.shrink()
    store.rows = made
    store.relocated()
