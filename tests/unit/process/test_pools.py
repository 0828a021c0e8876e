"""Pools of Python's allocator are told by their headers, and little else is taken for one."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Sequence

from rlmem.process.pools import HEADER_BYTES, find_pools, is_pool

KIB, MIB = 1 << 10, 1 << 20


def header(kind: int = 4, *, count: int = 3, pool: int = 16 * KIB, offset: int = 1000) -> bytes:
    return struct.pack(
        "=I4xQQQIIII", count, 0x7F0000000010, 0x7F0000004000, 0x7F0000008000, 2, kind, offset, pool - (kind + 1) * 16
    )


def test_a_header_is_recognised_for_every_class() -> None:
    assert all(is_pool(header(kind), 16 * KIB) for kind in range(32))
    assert is_pool(header(pool=4 * KIB), 4 * KIB)
    assert not is_pool(header(), 4 * KIB)


def test_zeros_numbers_and_noise_are_no_pools() -> None:
    rng = random.Random(0)
    assert not is_pool(bytes(HEADER_BYTES), 16 * KIB)
    assert not is_pool(header(32), 16 * KIB)
    assert not is_pool(header(count=5000), 16 * KIB)
    assert not any(is_pool(rng.randbytes(HEADER_BYTES), 16 * KIB) for _ in range(20_000))
    assert not any(is_pool(struct.pack("<12f", *(rng.random() for _ in range(12))), 16 * KIB) for _ in range(5000))


def test_what_lies_between_pools_of_an_arena_is_the_allocators() -> None:
    pools = {0: header(), 3 * 16 * KIB: header(9), 40 * MIB: header(1)}

    def read(places: Sequence[int], _length: int) -> Iterable[tuple[int, bytes]]:
        return [(place, pools.get(place, bytes(HEADER_BYTES))) for place in places]

    assert find_pools([(0, MIB), (39 * MIB, 41 * MIB)], read) == ((0, 64 * KIB), (40 * MIB, 40 * MIB + 16 * KIB))
    assert find_pools([(0, MIB)], lambda places, _: []) == ()
