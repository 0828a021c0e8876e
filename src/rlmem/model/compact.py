"""rlmem's own stores as arithmetic: every observation, or every frame of a stack, once.

What ``rlmem.buffers`` does, without its numpy: a stream of *units* for every environment and key, in blocks. Tests hold
the figures here against ``buffer.nbytes`` of real buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlmem.core.quantity import Quantity, total
from rlmem.model.storage import Array
from rlmem.units import KIB

#: As in ``rlmem.buffers``: a block that is kept as it is, the most units in one, what it is rounded to.
BLOCK_BYTES, BLOCK_UNITS, LINE_BYTES = 512 * KIB, 1024, 64
#: A block that is to be coded has about this much, where the sample did not say.
CODED_BLOCK_BYTES = 128 * KIB
#: Frames in the deepest stack a store can name (12 bits of a row's mark).
MOST_FRAMES = 4095
#: Rows that share a number and a word of bits, and the bytes of the two.
GROUP_ROWS, GROUP_BYTES = 64, 12
MARK_BYTES, TABLE_BYTES = 2, 16
#: Where a row waits: its observation, the next one, and the one before to be compared with.
STAGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of an observation, and what is known about its data."""

    name: str
    obs_bytes: int
    why: str
    #: Frames of a stack, or steps of a window; one of them is stored.
    depth: int = 1
    #: Never seen to change: its blocks cost nothing.
    constant: bool = False
    #: Bytes of a unit as found in a sample, coded or not; ``None``: as it is.
    coded: Quantity | None = None
    #: Units in a coded block, where a sample was seen.
    block: int | None = None
    #: There is a codec, and nothing is known about what it does to this data.
    unknown: bool = False

    @property
    def unit_bytes(self) -> int:
        """What is stored of one observation."""
        return self.obs_bytes // self.depth


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """A compact store: its rows, and what is stored once more because it does not follow."""

    rows: Quantity
    n_envs: Quantity
    #: Observations that begin an episode, where rows have next ones: none of them is that of the row before.
    ends: Quantity | None
    keys: tuple[Key, ...]
    #: Bytes that may stay in RAM; older blocks go to a file beyond it.
    budget: Quantity | None = None
    #: Transitions that the run comes to, where it ends before the store is full.
    reached: Quantity | None = None

    @property
    def slots(self) -> Quantity:
        """Transitions."""
        return self.rows * self.n_envs if self.reached is None else self.reached

    @property
    def units(self) -> Quantity:
        """Observations stored: one a transition, and one more where an episode ended."""
        return self.slots if self.ends is None else self.slots + self.ends

    def arrays(self) -> list[Array]:
        """What is kept of every key, and the tables that find it."""
        kept = [self.observations(key) for key in self.keys]
        if self.budget is not None and sum(array.amount.value for array in kept) > self.budget.value:
            kept = [
                self._array("observations", self.budget.named("budget", "what may stay in RAM; the rest is spilled"))
            ]
        return [*kept, self._array("tables", total(self._tables()))]

    def observations(self, key: Key) -> Array:
        """Units in whole blocks; or coded one after another, with blocks being written beside them."""
        if key.constant:
            return self._array(key.name, self._open(key).named("constant", f"{key.why}: its blocks are not kept"))
        if key.coded is not None:
            return self._array(key.name, self.units * key.coded + self._open(key) + self._room(key))
        units = Quantity.of(raw_block(key.unit_bytes, self.rows.value), "units a block", "512 KiB, at most rows // 128")
        blocks = self.units // units + self.n_envs * (ROLLOUT_SPARE if self.ends is None else SPARE)
        frames = f"a stack of {key.depth} keeps its newest frame" if key.depth > 1 else "one observation"
        block = segment_bytes(units.value * key.unit_bytes)
        why = f"{units.value:,} units of {key.unit_bytes:,} B; {frames}; {key.why}"
        amount = blocks * Quantity.of(block, f"{key.name} block bytes", why)
        if key.unknown:
            amount = amount.between(0, 1, "what a codec saves is not known without data; planned as if nothing")
        return self._array(key.name, amount)

    def _block_bytes(self, key: Key) -> int:
        """A block before any coding."""
        if key.coded is not None and key.block is None:
            return segment_bytes(max(CODED_BLOCK_BYTES, key.unit_bytes))
        return segment_bytes((key.block or raw_block(key.unit_bytes, self.rows.value)) * key.unit_bytes)

    def _open(self, key: Key) -> Quantity:
        """Blocks being written are kept as they are."""
        block = self._block_bytes(key)
        return self.n_envs * Quantity.of(2 * block, "open blocks", "one written, one ahead", low=block, high=3 * block)

    def _room(self, key: Key) -> Quantity:
        """What a codec works in: up to four blocks to code, up to four a thread to decode."""
        block = self._block_bytes(key)
        why = "6 blocks (1 to 20): up to 4 to code, up to 4 a thread to decode"
        return Quantity.of(6 * block, "room to code", why, low=block if key.block else 0, high=20 * block)

    def _tables(self) -> list[Quantity]:
        groups = (self.rows // Quantity.literal(GROUP_ROWS) + 1) * self.n_envs
        parts = [groups * Quantity.of(GROUP_BYTES, "bytes a group of 64 rows", "a number and a bit a row")]
        for key in self.keys:
            units = raw_block(key.unit_bytes, self.rows.value)
            blocks = self.units.value // units + 2 * self.n_envs.value
            entries = TABLE_BYTES * blocks
            why = "two numbers and an address a block; grown by a quarter at a time"
            name = f"block table of {key.name}"
            parts.append(Quantity.of(entries * 3 // 2, name, why, low=entries, high=2 * entries))
            staging = Quantity.of(
                STAGES * key.obs_bytes, f"staging of {key.name}", "a row, its successor, the last one"
            )
            parts.append(self.n_envs * staging)
            if key.depth > 1:
                marks = Quantity.of(MARK_BYTES, f"mark of {key.name}", "how a stack begins")
                parts.append(self.slots * marks)
        return parts

    def _array(self, name: str, amount: Quantity) -> Array:
        return Array(name=name, rows=self.rows, whole=amount)


#: Blocks an environment holds beyond its units: the one being written, the next, the oldest that is not quite free.
SPARE = Quantity.of(2, "spare blocks", "written, opened ahead, not quite free yet", low=1, high=3)
#: A rollout is emptied whole, and often ends with a block.
ROLLOUT_SPARE = Quantity.of(1, "spare blocks", "the last one, and one opened ahead", low=0, high=3)


def raw_block(unit_bytes: int, rows: int) -> int:
    """Units in a block that is stored as it is (``rlmem.buffers.layout.raw_block``)."""
    return max(1, min(BLOCK_BYTES // max(unit_bytes, 1), max(rows // 128, min(8, rows // 8)), BLOCK_UNITS))


def segment_bytes(block_bytes: int) -> int:
    """Bytes a block takes in its arena.

    >>> segment_bytes(508_032), segment_bytes(100)
    (508032, 128)
    """
    return -(-max(block_bytes, 1) // LINE_BYTES) * LINE_BYTES


def per_transition(arrays: Sequence[Array], slots: Quantity) -> tuple[int, int, int]:
    """Low, expected and high bytes of a transition in a store."""
    amounts = [array.amount for array in arrays]
    sums = (sum(a.low for a in amounts), sum(a.value for a in amounts), sum(a.high for a in amounts))
    low, expected, high = (round(number / max(slots.value, 1)) for number in sums)
    return low, expected, high
