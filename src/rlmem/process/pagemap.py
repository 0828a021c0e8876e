"""Which pages of a process are resident: ranges of addresses, by the best of the ways the kernel offers.

``PAGEMAP_SCAN`` (Linux 6.7) gives merged ranges and knows the kernel's page of zeros, which is present and costs
nothing: 12.6 ms a GB. The classic eight bytes a page say the same but for that page, at about 60 ms a GB. Where
neither may be read, ``smaps`` says how much of each mapping is resident, but not which pages.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeAlias

from rlmem.agent import proc
from rlmem.core.holdings import PAGE_METHODS
from rlmem.process.maps import Mapping, parse_maps, split_zeroed, zeroed_bytes

_SCAN = 0xC0606610  # _IOWR('f', 16, struct pm_scan_arg)
_IS_PRESENT, _IS_ZEROS = 1 << 3, 1 << 5
#: Bits of a classic entry's highest byte: present; of a file, or shared anonymous memory; mapped by this process alone.
_PRESENT, _OF_FILE, _ALONE = 0x80, 0x20, 0x01
_IS_THERE = bytes(bool(flag & _PRESENT) for flag in range(256))
_IS_OWN = bytes(bool(flag & _PRESENT and flag & (_OF_FILE | _ALONE)) for flag in range(256))
_ARGUMENT = struct.Struct("=12Q")
_VECTOR = 8192
_CHUNK_PAGES = 1 << 16
_TOP = 1 << 63  # the kernel's own half of the addresses, where [vsyscall] lies


#: For each mapping the resident ranges, and by its address what the kernel itself counts where that may be less.
Listed: TypeAlias = tuple[tuple[tuple[tuple[int, int], ...], ...], dict[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Resident memory by mapping: ranges of addresses where they are known, and bytes in any case."""

    method: str
    mappings: tuple[Mapping, ...]
    #: For each mapping, ``(start, end)`` of what is resident; empty with ``smaps``. More than ``resident`` where some of
    #: these pages are the kernel's page of zeros and cannot be told.
    ranges: tuple[tuple[tuple[int, int], ...], ...]
    resident: tuple[int, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def rss_bytes(self) -> int:
        """Everything that is resident."""
        return sum(self.resident)


def read_pages(pid: int, *, root: str = proc.PROC, methods: Sequence[str] = PAGE_METHODS) -> Pages | None:
    """The pages of a process by the best way there is; None when it is gone or may not be looked at."""
    text = proc.read(f"{root}/{pid}/maps")
    if not text:
        return None
    whole = parse_maps(text.decode("utf-8", "replace"))
    # The kernel's own sizes are those of whole mappings, and the classic way needs them.
    split = split_zeroed(whole, lambda path: _zeroed(f"{root}/{pid}/root{path}"))
    notes = []
    for method, read, mappings in (("pagemap-scan", _scan, split), ("pagemap", _list, whole)):
        if method not in methods:
            continue
        try:
            with open(f"{root}/{pid}/pagemap", "rb", buffering=0) as file:
                ranges, sizes = read(pid, file.fileno(), mappings, root)
        except OSError as error:
            notes.append(f"{method} is not open here: {error.strerror}")
            continue
        listed = tuple(sum(end - start for start, end in each) for each in ranges)
        resident = tuple(
            min(count, sizes.get(mapping.start, count)) for mapping, count in zip(mappings, listed, strict=True)
        )
        return Pages(method=method, mappings=mappings, ranges=ranges, resident=resident, notes=tuple(notes))
    return from_smaps(pid, root=root, notes=tuple(notes)) if "smaps" in methods else None


@lru_cache(maxsize=4096)
def _zeroed(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return zeroed_bytes(file.read(4096))
    except OSError:
        return None


def _scan(_pid: int, handle: int, mappings: Sequence[Mapping], _root: str) -> Listed:
    return tuple(tuple(_merged(_scanned(handle, mapping))) for mapping in mappings), {}


def _list(pid: int, handle: int, mappings: Sequence[Mapping], root: str) -> Listed:
    sizes = from_smaps(pid, root=root)
    held = {m.start: n for m, n in zip(sizes.mappings, sizes.resident, strict=True)} if sizes else {}
    return tuple(tuple(_merged(_listed(handle, mapping, held.get(mapping.start)))) for mapping in mappings), held


def _scanned(handle: int, mapping: Mapping) -> Iterator[tuple[int, int]]:
    """Resident ranges by ``PAGEMAP_SCAN``."""
    if mapping.start >= _TOP:
        return
    vector = (ctypes.c_uint64 * (3 * _VECTOR))()
    start = mapping.start
    while start < mapping.end:
        argument = bytearray(
            _ARGUMENT.pack(
                _ARGUMENT.size, 0, start, mapping.end, 0, ctypes.addressof(vector), _VECTOR, 0,
                _IS_ZEROS, _IS_PRESENT | _IS_ZEROS, 0, _IS_PRESENT,
            )
        )  # fmt: skip
        count = fcntl.ioctl(handle, _SCAN, argument)
        for index in range(count):
            yield vector[3 * index], vector[3 * index + 1]
        start = max(_ARGUMENT.unpack(argument)[4], start + proc.PAGE)


def _listed(handle: int, mapping: Mapping, rss_bytes: int | None) -> Iterator[tuple[int, int]]:
    """Resident ranges by the classic entries.

    An anonymous page that was only read shows the page of zeros. Without privilege it looks like a page shared with a
    forked child: neither is mapped here alone. So when more pages are present than the kernel counts as resident, the
    ones that are not mapped alone are left out. (Huge pages of zeros look mapped alone: then only the kernel's count of
    the mapping is right, and its owners share that.)
    """
    if mapping.start >= _TOP or mapping.start >= mapping.end:
        return
    page, first = proc.PAGE, mapping.start // proc.PAGE
    flags = bytearray()  # the highest byte of each entry
    while len(flags) < mapping.nbytes // page:
        wanted = min(mapping.nbytes // page - len(flags), _CHUNK_PAGES)
        data = os.pread(handle, wanted * 8, (first + len(flags)) * 8)
        if len(data) < 8:
            break
        flags += data[7 : len(data) // 8 * 8 : 8]
    there = flags.translate(_IS_THERE)
    if mapping.is_anonymous and rss_bytes is not None and there.count(1) * page > rss_bytes:
        there = flags.translate(_IS_OWN)
    start = there.find(1)
    while start >= 0:
        end = there.find(0, start)
        end = len(there) if end < 0 else end
        yield mapping.start + start * page, mapping.start + end * page
        start = there.find(1, end)


def _merged(ranges: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Neighbours joined."""
    held: tuple[int, int] | None = None
    for start, end in ranges:
        if held and held[1] == start:
            held = (held[0], end)
        else:
            if held:
                yield held
            held = (start, end)
    if held:
        yield held


def from_smaps(pid: int, *, root: str = proc.PROC, notes: tuple[str, ...] = ()) -> Pages | None:
    """Resident bytes of each mapping, without knowing which pages."""
    text = proc.read(f"{root}/{pid}/smaps")
    if not text:
        return None
    mappings, resident = [], []
    for line in text.decode("utf-8", "replace").splitlines():
        found = parse_maps(line)
        if found:
            mappings.append(found[0])
            resident.append(0)
        elif line.startswith("Rss:") and resident:
            resident[-1] = int(line.split()[1]) * 1024
    return Pages(
        method="smaps",
        mappings=tuple(mappings),
        ranges=((),) * len(mappings),
        resident=tuple(resident),
        notes=notes,
    )


def read_memory(pid: int, places: Sequence[int], length: int) -> Iterator[tuple[int, bytes]]:
    """A few bytes of a process at each address, without stopping it; addresses that cannot be read are left out.

    Not ``process_vm_readv``: it pins pages, and since Linux 5.19 a page that a fork shares is copied to be pinned (eight
    idle workers of 200 MiB went from 240 to 452 MiB together).
    """
    try:
        file = os.open(f"{proc.PROC}/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not allowed, or the process is gone
        return
    try:
        for place in places:
            try:
                data = os.pread(file, length, place)
            except OSError:
                continue
            if len(data) == length:
                yield place, data
    finally:
        os.close(file)
