"""Mappings are read and told apart by name and by place."""

from __future__ import annotations

import pytest

from rlmem.core.memory_classes import (
    ARENAS,
    FILES,
    GPU,
    HEAP,
    KERNEL,
    LIBRARY_CODE,
    LIBRARY_DATA,
    PYMALLOC,
    SHARED,
    STACKS,
    UNKNOWN,
)
from rlmem.process.maps import classify, parse_maps, split_zeroed, zeroed_bytes

MIB = 1 << 20


def line(start: int, end: int, perms: str = "rw-p", path: str = "") -> str:
    return f"{start:x}-{end:x} {perms} 00000000 00:00 0 {path}"


def kinds(*lines: str, **options: object) -> list[str]:
    return [mapping.kind for mapping in classify(parse_maps("\n".join(lines)), **options)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("perms", "path", "kind"),
    [
        ("rw-p", "[heap]", HEAP),
        ("rw-p", "[stack]", STACKS),
        ("r-xp", "[vdso]", KERNEL),
        ("r--p", "[vvar_vclock]", KERNEL),
        ("r-xp", "/usr/lib/libc.so.6", LIBRARY_CODE),
        ("r--p", "/opt/é/site-packages/torch/lib/libtorch_cpu.so", LIBRARY_CODE),
        ("rw-p", "/usr/lib/libc.so.6", LIBRARY_DATA),
        ("rw-p", "/usr/lib/libx.so.1.2 (deleted)", LIBRARY_DATA),
        ("r--p", "/usr/bin/python3.11", LIBRARY_CODE),
        ("rw-s", "/dev/shm/psm_1234", SHARED),
        ("rw-s", "/memfd:torch (deleted)", SHARED),
        ("rw-s", "/dev/zero (deleted)", SHARED),
        ("rw-s", "/dev/nvidia0", GPU),
        ("rw-s", "/dev/dri/renderD128", GPU),
        ("rw-s", "/data/replay buffer.bin", FILES),
        ("r--p", "/usr/lib/locale/locale-archive", FILES),
        ("rw-p", "[anon: glibc: pthread stack: 12]", STACKS),
        ("rw-p", "[anon:cpython:pymalloc]", PYMALLOC),
        ("rw-p", "", UNKNOWN),
    ],
)
def test_a_name_tells_the_class(perms: str, path: str, kind: str) -> None:
    assert kinds(line(0x1000000, 0x1100000, perms, path)) == [kind]


def test_a_thread_stack_lies_above_its_guard() -> None:
    guard, stack = line(0x7F0000000000, 0x7F0000001000, "---p"), line(0x7F0000001000, 0x7F0000801000)
    assert kinds(guard, stack) == [UNKNOWN, STACKS]
    small = line(0x7F0000001000, 0x7F0000041000)
    assert kinds(guard, small) == [UNKNOWN, UNKNOWN]
    assert kinds(guard, small, stack_pointers=[0x7F0000040000]) == [UNKNOWN, STACKS]


def test_an_arena_begins_at_a_multiple_of_its_size() -> None:
    start = 0x7F0000000000
    assert kinds(line(start, start + MIB), line(start + MIB, start + 64 * MIB, "---p")) == [ARENAS, ARENAS]
    assert kinds(line(start, start + 64 * MIB)) == [ARENAS]
    assert kinds(line(start + MIB, start + 3 * MIB)) == [UNKNOWN]


def test_zeroed_variables_follow_their_library() -> None:
    start = 0x7F0000000000
    library = line(start, start + 4096, "rw-p", "/usr/lib/libtorch.so")
    assert kinds(library, line(start + 4096, start + MIB)) == [LIBRARY_DATA, LIBRARY_DATA]


def test_what_lies_behind_a_librarys_zeroed_variables_is_not_its_own() -> None:
    start = 0x7F0000000000
    library = line(start, start + 4096, "rw-p", "/usr/lib/libtorch.so")
    found = parse_maps("\n".join((library, line(start + 4096, start + 64 * MIB))))
    cut = classify(split_zeroed(found, lambda _: 5000))
    assert [(each.nbytes, each.kind) for each in cut[1:]] == [(8192, LIBRARY_DATA), (64 * MIB - 12288, UNKNOWN)]
    assert [each.kind for each in classify(split_zeroed(found, lambda _: 0))] == [LIBRARY_DATA, UNKNOWN]
    assert [each.kind for each in classify(split_zeroed(found, lambda _: None))] == [
        LIBRARY_DATA,
        LIBRARY_DATA,
        UNKNOWN,
    ]


def test_an_elf_file_says_how_many_zeros_it_leaves_out() -> None:
    with open("/proc/self/exe", "rb") as file:
        assert zeroed_bytes(file.read(4096)) is not None
    assert zeroed_bytes(b"\x7fELF\x02") is None
    assert zeroed_bytes(b"#!/bin/sh" * 20) is None


def test_lines_that_are_no_mappings_are_left_out() -> None:
    assert parse_maps("Rss: 12 kB\n\nVmFlags: rd\n7f00-7f") == ()
