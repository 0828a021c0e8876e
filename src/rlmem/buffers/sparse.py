"""What changed from one unit to the next, as runs of bytes: a game's frames differ in a few places from the one before.

The first unit of a block is told against a reference the column keeps (a game's background; zeros where there is none),
each further one against the unit before it. Undoing it touches only what changed; a general compressor would write every
byte of every frame. A unit is the size of its runs, then the runs: bytes to pass over, bytes that differ, and their
exclusive or. Numbers are in sevens of bits, lowest first.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from rlmem.buffers.native import compiled, copy_bytes, inlined, load64, read_byte, store64, write_byte

#: Equal bytes between two differing ones that do not end a run: a new run would cost as much.
BRIDGE = 2
#: Bytes a number may take.
NUMBER = 5


@inlined
def _width(size: int) -> int:
    """Bytes the size of a unit's runs is told in."""
    return 1 if size < 64 else (2 if size < 8_192 else 3)


@inlined
def _write_number(place: int, value: int) -> int:
    while value >= 128:
        write_byte(place, np.uint8(value & 127 | 128))
        value >>= 7
        place += 1
    write_byte(place, np.uint8(value))
    return place + 1


@inlined
def _next_difference(left: int, right: int, at: int, size: int) -> int:
    """The first place from ``at`` on where two runs of memory differ, or ``size``."""
    while at + 8 <= size:
        if load64(left + at) != load64(right + at):
            break
        at += 8
    while at < size and read_byte(left + at) == read_byte(right + at):
        at += 1
    return at


@inlined
def _write_runs(unit: int, before: int, size: int, place: int, end: int) -> int:
    """The runs of one unit; where they end, or 0 when there is no room for them."""
    at, told = _next_difference(unit, before, 0, size), 0
    while at < size:
        stop, same, look = at + 1, 0, at + 1
        while look < size and same <= BRIDGE:
            if read_byte(unit + look) != read_byte(before + look):
                stop, same = look + 1, 0
            else:
                same += 1
            look += 1
        if place + 2 * NUMBER + stop - at > end:
            return 0
        place = _write_number(place, at - told)
        place = _write_number(place, stop - at)
        for i in range(at, stop):
            write_byte(place, read_byte(unit + i) ^ read_byte(before + i))
            place += 1
        told = stop
        at = _next_difference(unit, before, stop, size)
    return place


@compiled(int64(int64, int64, int64, int64, int64, int64))
def tell(block: int, units: int, size: int, reference: int, out: int, room: int) -> int:
    """Write what changed in a block of units; how much it took, or 0 when there was not room enough."""
    place, end, before = out, out + room, reference
    for n in range(units):
        unit = block + n * size
        width = _width(size)
        if place + width > end:
            return 0
        done = _write_runs(unit, before, size, place + width, end)
        if done == 0 or done - place - width >= 1 << (8 * width):
            return 0
        for byte in range(width):
            write_byte(place + byte, np.uint8(((done - place - width) >> (8 * byte)) & 255))
        place, before = done, unit
    return place - out


@inlined
def _read_number(place: int, end: int) -> tuple[int, int]:
    value, shift = np.int64(0), 0
    while place < end:
        byte = np.int64(read_byte(place))
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 35:
            break
    return value, place


@inlined
def follow(target: int, before: int, size: int, place: int, end: int) -> int:
    """Make the next unit from the one before it; where its runs end, or 0 when they cannot be right."""
    width = _width(size)
    if place + width > end:
        return 0
    length = np.int64(0)
    for byte in range(width):
        length |= np.int64(read_byte(place + byte)) << (8 * byte)
    place += width
    stop = place + length
    if stop > end:
        return 0
    copy_bytes(target, before, size)
    at = np.int64(0)
    while place < stop:
        gap, place = _read_number(place, stop)
        count, place = _read_number(place, stop)
        at += gap
        if at + count > size or place + count > stop:
            return 0
        i = np.int64(0)
        while i + 8 <= count:
            store64(target + at + i, load64(target + at + i) ^ load64(place + i))
            i += 8
        while i < count:
            write_byte(target + at + i, read_byte(target + at + i) ^ read_byte(place + i))
            i += 1
        at += count
        place += count
    return stop
