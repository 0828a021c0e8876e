"""Python's own allocator, recognised from outside: pools of small objects carry a header that little else looks like.

A pool is 16 KiB at a multiple of it (4 KiB before Python 3.10) and begins with the count of its blocks, three
addresses, the number of its arena, its size class, and two offsets of which the second follows from the class. Arenas
of 1 MiB (256 KiB before) hold the pools; between two pools of one arena everything is the allocator's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

from rlmem.units import KIB, MIB

#: ref count, freeblock, nextpool, prevpool, arena index, size class, nextoffset, maxnextoffset
_HEADER = struct.Struct("=I4xQQQIIII")
HEADER_BYTES = _HEADER.size
#: Bytes of a pool and of an arena, for the releases that have them.
SHAPES = ((16 * KIB, MIB), (4 * KIB, 256 * KIB))
_CLASSES, _ALIGNMENT = 32, 16
#: Places looked at in the length of an arena before it is searched.
LOOKS = 8

Reader = Callable[[Sequence[int], int], Iterable[tuple[int, bytes]]]


def is_pool(data: bytes, pool_bytes: int) -> bool:
    """Whether these bytes are the header of a pool of that size."""
    count, free, following, before, arena, kind, offset, last = _HEADER.unpack_from(data)
    if not kind < _CLASSES:
        return False
    block = (kind + 1) * _ALIGNMENT
    return bool(
        last == pool_bytes - block
        and HEADER_BYTES <= offset <= pool_bytes
        and count <= (pool_bytes - HEADER_BYTES) // block
        and arena < 1 << 24
        and (following != 0 or before == 0)
        and (free == 0 or free % _ALIGNMENT == 0)
    )


def find_pools(ranges: Iterable[tuple[int, int]], read: Reader) -> tuple[tuple[int, int], ...]:
    """Addresses of arenas among resident ranges of one mapping, as far as their pools show.

    Pools are many where there are any, so a few places in each arena's length are looked at first.
    """
    ranges = tuple(ranges)
    for pool_bytes, arena_bytes in SHAPES:
        first = _headers(ranges, arena_bytes // LOOKS, pool_bytes, read)
        if not first:
            continue
        near = [(max(place - arena_bytes, 0), place + arena_bytes) for place in first]
        found = _headers(_common(ranges, _merged(near)), pool_bytes, pool_bytes, read)
        return tuple(_joined(found, pool_bytes, arena_bytes))
    return ()


def _headers(ranges: Iterable[tuple[int, int]], step: int, pool_bytes: int, read: Reader) -> list[int]:
    places = [place for start, end in ranges for place in _places(start, end, step, pool_bytes)]
    return sorted(place for place, data in read(places, HEADER_BYTES) if is_pool(data, pool_bytes))


def _places(start: int, end: int, step: int, pool_bytes: int) -> range:
    """Beginnings of possible pools; a range shorter than the step is looked at at its first."""
    return range(-(-start // pool_bytes) * pool_bytes, end, step)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _common(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where both have something; each in address order and without overlaps."""
    at = 0
    for start, end in one:
        while at < len(other) and other[at][1] <= start:
            at += 1
        index = at
        while index < len(other) and other[index][0] < end:
            yield max(start, other[index][0]), min(end, other[index][1])
            index += 1


def _joined(places: Sequence[int], pool_bytes: int, arena_bytes: int) -> Iterator[tuple[int, int]]:
    start = end = places[0]
    for place in places:
        if place - end > arena_bytes:
            yield start, end
            start = place
        end = place + pool_bytes
    yield start, end
