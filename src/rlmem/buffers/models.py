"""What a column knows beside its blocks, and needs to read them: Huffman tables, and units that others are told against."""

from __future__ import annotations

import numpy as np

from rlmem.buffers import huffman
from rlmem.buffers.codec import MOST_MODELS, Bytes, Ints

TABLE, REFERENCE = "table", "reference"


class Models:
    """Numbered; a block names its own, so none is ever changed or dropped."""

    def __init__(self) -> None:
        self.addresses: Ints = np.zeros(1, np.int64)
        #: What each was made from: the lengths of the codes, or the unit itself.
        self.made_from: list[tuple[str, Bytes]] = []
        self._held: list[Bytes] = []

    def __len__(self) -> int:
        return len(self.made_from)

    @property
    def full(self) -> bool:
        """Whether there is no number left."""
        return len(self.made_from) >= MOST_MODELS

    def add(self, kind: str, source: Bytes) -> int:
        """A model of a kind; its number."""
        for number, (other, held) in enumerate(self.made_from):
            if other == kind and np.array_equal(held, source):
                return number
        model = huffman.make_table(source) if kind == TABLE else source
        if not self.made_from:
            self.addresses = np.zeros(MOST_MODELS + 1, np.int64)
        self.made_from.append((kind, source))
        self._held.append(model)
        self.addresses[len(self._held) - 1] = model.__array_interface__["data"][0]
        return len(self._held) - 1

    def address(self, number: int) -> int:
        """Where compiled code finds one."""
        return int(self.addresses[number])

    def of(self, kind: str) -> list[int]:
        """The numbers of one kind."""
        return [number for number, (other, _) in enumerate(self.made_from) if other == kind]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.addresses.nbytes + sum(model.nbytes for model in self._held)
