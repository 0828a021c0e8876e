"""The mappings of a process, and what each of them is: the class its pages belong to when no owner has them."""

from __future__ import annotations

import os.path
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

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
from rlmem.units import KIB, MIB

#: glibc gives each arena of a thread heaps of this size, at multiples of it.
ARENA_BYTES = 64 * MIB
#: A guard beneath a thread's stack is this large at most.
GUARD_BYTES = 64 * KIB
_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) (\S+) (\d+) *(.*)$")
#: Taken for a library's where its file cannot be read.
ZEROED_BYTES = 256 * KIB
PAGE = 4096
_LIBRARY = re.compile(r"\.so(\.[0-9.]+)?( \(deleted\))?$")
_GPU = ("/dev/nvidia", "/dev/dri/", "/dev/kfd", "/dev/mali", "anon_inode:[amdgpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """One line of ``/proc/PID/maps``, with the class its pages are of."""

    start: int
    end: int
    perms: str
    path: str = ""
    inode: int = 0
    kind: str = UNKNOWN
    after_library: bool = False  # begins where a library's own part of a mapping ended

    @property
    def nbytes(self) -> int:
        """Address space it takes."""
        return self.end - self.start

    @property
    def is_anonymous(self) -> bool:
        """Neither a file nor one of the kernel's names."""
        return not self.path or self.path.startswith("[anon:")


def parse_maps(text: str) -> tuple[Mapping, ...]:
    """Every mapping in address order; lines that are none are left out.

    >>> parse_maps("7f00-7f08 rw-p 00000000 00:00 0      [heap]")[0].path
    '[heap]'
    """
    found = []
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            start, end, perms, _, _, inode, path = match.groups()
            found.append(Mapping(start=int(start, 16), end=int(end, 16), perms=perms, path=path, inode=int(inode)))
    return tuple(found)


def split_zeroed(mappings: Sequence[Mapping], zeroed: Callable[[str], int | None]) -> tuple[Mapping, ...]:
    """Anonymous memory after a library's data, cut where the library's own part of it ends.

    The kernel joins it with whatever is mapped beside it. ``zeroed`` says how many bytes of a library's last segment are
    not in its file; None where that is not known, and then little is taken to be.
    """
    found: list[Mapping] = []
    for mapping in mappings:
        before = found[-1] if found else None
        follows = before is not None and before.end == mapping.start and "w" in before.perms
        if before is None or not follows or mapping.path or not _is_library(before.path):
            found.append(mapping)
            continue
        known = zeroed(before.path)
        nbytes = min(-(-(known if known is not None else ZEROED_BYTES) // PAGE) * PAGE, mapping.nbytes)
        if 0 < nbytes < mapping.nbytes:
            found.append(replace(mapping, end=mapping.start + nbytes))
            found.append(replace(mapping, start=mapping.start + nbytes, after_library=True))
        else:
            found.append(replace(mapping, after_library=not nbytes))
    return tuple(found)


def zeroed_bytes(data: bytes) -> int | None:
    """How many bytes of a 64-bit ELF file's last segment in memory are zeros that the file does not hold."""
    if len(data) < 64 or data[:5] != b"\x7fELF\x02":
        return None
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    if table + size * count > len(data):
        return None
    found = 0
    for index in range(count):
        kind, _, _, _, _, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", data, table + index * size)
        if kind == 1 and in_memory > in_file:
            found = in_memory - in_file
    return found


def classify(
    mappings: Sequence[Mapping], *, stack_bytes: int = 8 * MIB, stack_pointers: Iterable[int] = ()
) -> tuple[Mapping, ...]:
    """Each mapping with its class, by its name, its neighbours and where threads have their stacks."""
    pointers = sorted(stack_pointers)
    found: list[Mapping] = []
    for index, mapping in enumerate(mappings):
        before = found[-1] if found else None
        after = mappings[index + 1] if index + 1 < len(mappings) else None
        kind = _by_name(mapping)
        if kind is None:
            kind = _by_place(mapping, before, after, stack_bytes, pointers)
        found.append(replace(mapping, kind=kind))
    return tuple(found)


def _by_name(mapping: Mapping) -> str | None:
    """What the path says; None for anonymous memory."""
    path = mapping.path
    if path.startswith("[anon:"):
        if "stack" in path:
            return STACKS
        if "malloc arena" in path:
            return ARENAS
        return PYMALLOC if "pymalloc" in path else HEAP if "malloc" in path else None
    named = {"[heap]": HEAP, "[stack]": STACKS, "[vdso]": KERNEL, "[vvar]": KERNEL, "[vsyscall]": KERNEL}
    if path in named:
        return named[path]
    if not path:
        return None
    if path.startswith("[stack:"):
        return STACKS
    if path.startswith(_GPU):
        return GPU
    if path.startswith(("/dev/shm/", "/SYSV", "/memfd:", "/dev/zero")) or (
        path.startswith("/dev/") and "s" in mapping.perms
    ):
        return SHARED
    if path.startswith("["):
        return KERNEL
    if "x" in mapping.perms or _is_library(path):
        return LIBRARY_DATA if "w" in mapping.perms else LIBRARY_CODE
    return FILES


def _is_library(path: str) -> bool:
    return bool(_LIBRARY.search(path)) or (os.path.basename(path).startswith("python") and "/bin/" in path)


def _by_place(
    mapping: Mapping, before: Mapping | None, after: Mapping | None, stack_bytes: int, pointers: Sequence[int]
) -> str:
    """Anonymous memory by what it lies beside."""
    if mapping.perms.startswith("---"):
        return before.kind if before and before.end == mapping.start and before.kind == ARENAS else UNKNOWN
    guarded = (
        before is not None
        and before.end == mapping.start
        and before.perms.startswith("---")
        and before.nbytes <= GUARD_BYTES
    )
    # The C library hands out stacks of the limit's size, less or more a page for the guard.
    if guarded and (abs(mapping.nbytes - stack_bytes) <= GUARD_BYTES or _points_into(pointers, mapping)):
        return STACKS
    if mapping.start % ARENA_BYTES == 0 and mapping.nbytes <= ARENA_BYTES:
        whole = mapping.nbytes == ARENA_BYTES
        rest = after is not None and after.start == mapping.end and after.perms.startswith("---")
        if whole or (rest and after is not None and after.end - mapping.start == ARENA_BYTES):
            return ARENAS
    # What a library's variables start as zero in (.bss) follows its file.
    if before is not None and before.end == mapping.start and before.kind == LIBRARY_DATA and not mapping.after_library:
        return LIBRARY_DATA
    return UNKNOWN


def _points_into(pointers: Sequence[int], mapping: Mapping) -> bool:
    return any(mapping.start <= pointer < mapping.end for pointer in pointers)
