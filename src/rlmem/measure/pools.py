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
_UNUSED = 0xFFFF  # the class of a pool that no object has used yet
#: Fewer headers than this in a process are chance.
LEAST = 4

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
    """Addresses of arenas among resident ranges of one mapping, as far as their pools show."""
    ranges = tuple(ranges)
    for pool_bytes, arena_bytes in SHAPES:
        places = [
            place for start, end in ranges for place in range(-(-start // pool_bytes) * pool_bytes, end, pool_bytes)
        ]
        found = sorted(place for place, data in read(places, HEADER_BYTES) if is_pool(data, pool_bytes))
        if found:
            return tuple(_joined(found, pool_bytes, arena_bytes))
    return ()


def _joined(places: Sequence[int], pool_bytes: int, arena_bytes: int) -> Iterator[tuple[int, int]]:
    start = end = places[0]
    for place in places:
        if place - end > arena_bytes:
            yield start, end
            start = place
        end = place + pool_bytes
    yield start, end
