"""Experience in memory: exact arrays, with shapes and dtypes, reserved at build and resident as they fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlmem.core.quantity import Quantity, total
from rlmem.core.spaces import DTYPES
from rlmem.model.tape import Block, Tape


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """One array of a store: how many rows, and what a row holds."""

    name: str
    rows: Quantity
    row_values: int = 0
    dtype: str = "float32"
    why: str = ""
    #: Bytes of a row when they are measured rather than counted (Python objects); then ``row_values`` is not used.
    measured: Quantity | None = None
    #: Bytes in all where they are not rows of one size; then ``row_values`` is not used either.
    whole: Quantity | None = None
    #: An array that exists but is never written stays address space.
    written: bool = True
    #: Rows that the run comes to, where it ends before the store is full; the others stay address space. And what those
    #: rows take, where bytes are given in all.
    reached: Quantity | None = None
    reached_whole: Quantity | None = None
    #: Python objects built at once (HER's dicts) are resident from the start.
    eager: bool = False

    @property
    def amount(self) -> Quantity:
        """``rows × row bytes``."""
        return self._of(self.rows)

    @property
    def reached_amount(self) -> Quantity:
        """The same of the rows that the run comes to."""
        if self.reached_whole is not None:
            return self.reached_whole
        return self._of(self.rows if self.reached is None else self.reached)

    def _of(self, rows: Quantity) -> Quantity:
        if self.whole is not None:
            return self.whole
        if self.measured is not None:
            return rows * self.measured
        size = DTYPES[self.dtype]
        row = Quantity.of(
            self.row_values * size, f"{self.name} row bytes", f"{self.row_values:,} × {self.dtype}; {self.why}"
        )
        return rows * row

    @property
    def basis(self) -> str:
        """Where its bytes come from, in a ledger's words."""
        if self.whole is not None:
            return "derived"
        return "exact" if self.measured is None else "measured"


class Store:
    """A replay buffer or rollout on the tape."""

    def __init__(
        self, tape: Tape, group: str, arrays: Sequence[Array], *, device: str = "ram", lazy: bool = True
    ) -> None:
        self.tape, self.group, self.arrays, self.device, self.lazy = tape, group, tuple(arrays), device, lazy
        self.blocks: dict[str, Block] = {}
        #: Address space of rows that the run never comes to.
        self.beyond: list[Block] = []

    def build(self) -> None:
        """``np.zeros`` reserves and touches nothing; a store that is written at once is resident."""
        for array in self.arrays:
            component, lazy = f"{self.group}.{array.name}", self.lazy and not array.eager
            kept = array.reached_amount if lazy else array.amount
            self.blocks[array.name] = self.tape.alloc(
                component,
                kept,
                device=self.device,
                basis=array.basis,
                residency="reserved" if lazy else "resident",
            )
            beyond = array.amount.value - kept.value
            if beyond:
                amount = Quantity.of(beyond, f"{array.name} this run never writes", "the rows beyond its last step")
                self.beyond.append(
                    self.tape.alloc(component, amount, device=self.device, basis=array.basis, residency="reserved")
                )

    def fill(self) -> None:
        """Collection writes every row sooner or later, as far as the run comes; the plan is for the run that gets there."""
        if self.lazy:
            self.tape.fill(*(self.blocks[array.name] for array in self.arrays if array.written and not array.eager))

    def settle(self) -> None:
        """Full: simply resident from here on."""
        self.tape.settle(*self.blocks.values())

    def copy(self, name: str, component: str) -> Block:
        """A second array of the same size beside one that lives."""
        array = next(a for a in self.arrays if a.name == name)
        return self.tape.alloc(component, array.amount, device=self.device, basis=array.basis)

    @property
    def amount(self) -> Quantity:
        """The whole store."""
        return total(array.amount for array in self.arrays)
