"""The caching allocator against numbers read off the real one (torch 2.11 on an H200, memory_stats after every step)."""

from __future__ import annotations

import pytest

from rlmem.trace.allocator import CachingAllocator, rounded, segment_bytes
from rlmem.units import MIB

#: Scripts of allocations (bytes) and frees (minus the step that made the block, counted from 1), with allocated and
#: reserved bytes after every step.
SCRIPTS: dict[str, list[tuple[int, int, int]]] = {
    "small sizes are rounded to 512 B and share 2 MiB": [
        (1, 512, 2097152), (512, 1024, 2097152), (513, 2048, 2097152), (100000, 102400, 2097152), (-3, 101376, 2097152),
        (1024, 102400, 2097152), (1048576, 1150976, 2097152), (1048577, 2200064, 23068672), (-6, 2199040, 23068672),
        (1047040, 3246080, 25165824),
    ],
    "large ones share 20 MiB or have a segment of their own": [
        (3145728, 3145728, 20971520), (6291456, 9437184, 20971520), (9437184, 18874368, 20971520),
        (12582912, 31457280, 33554432), (-2, 25165824, 33554432), (5242880, 31457280, 33554432),
        (1048577, 33554432, 33554432), (-1, 30408704, 33554432), (-3, 20971520, 33554432), (11534336, 33554432, 46137344),
        (19922944, 54525952, 67108864), (-4, 41943040, 67108864), (11534336, 54525952, 67108864),
        (10485759, 65011712, 77594624),
    ],
    "free neighbours join": [
        (4194304, 4194304, 20971520), (4194304, 8388608, 20971520), (4194304, 12582912, 20971520),
        (4194304, 16777216, 20971520), (-1, 12582912, 20971520), (-3, 8388608, 20971520), (7340032, 15728640, 41943040),
        (-2, 11534336, 41943040), (12582912, 24117248, 41943040), (-4, 19922944, 41943040), (20971520, 40894464, 62914560),
    ],
    "the smallest block that fits is taken": [
        (31457280, 31457280, 31457280), (23068672, 54525952, 54525952), (27262976, 81788928, 81788928),
        (-1, 50331648, 81788928), (-2, 27262976, 81788928), (-3, 0, 81788928), (22020096, 23068672, 81788928),
        (22020096, 45088768, 81788928), (22020096, 67108864, 81788928), (8388608, 76546048, 81788928),
        (3145728, 79691776, 81788928),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_gives_the_bytes_of_the_real_allocator(name: str) -> None:
    allocator, made = CachingAllocator(), {}
    for step, (what, allocated, reserved) in enumerate(SCRIPTS[name], start=1):
        if what > 0:
            made[step] = allocator.allocate(what)
        else:
            allocator.release(made.pop(-what))
        assert (allocator.allocated, allocator.reserved) == (allocated, reserved), step
    assert allocator.peak_allocated == max(allocated for _, allocated, _ in SCRIPTS[name])
    assert allocator.peak_reserved == SCRIPTS[name][-1][2]


def test_everything_freed_is_one_block_again() -> None:
    allocator = CachingAllocator()
    made = [allocator.allocate(4 * MIB) for _ in range(5)]
    for address in (made[i] for i in (1, 3, 0, 4, 2)):
        allocator.release(address)
    allocator.allocate(20 * MIB)
    assert allocator.reserved == 20 * MIB


def test_sizes_of_segments() -> None:
    assert [segment_bytes(rounded(n)) // MIB for n in (1, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 21 * MIB)] == [
        2, 2, 20, 10, 10, 22,
    ]  # fmt: skip
