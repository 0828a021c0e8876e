"""Every resident page to one owner: named storages first, by the byte; the rest to the class of its mapping.

Storages that were seen are laid over the resident ranges, so that their share is exact. Python objects and the unseen
elements of sampled containers have a size and no address: they take their estimate out of the class such memory lies
in (small objects out of Python's allocator, larger ones out of the heap, the arenas, then anonymous mappings), and
never more than is there. So named + classes + unexplained is what is resident, whatever the estimates are worth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rlmem.agent.protocol import WalkRow
from rlmem.core.holdings import Holding, Portion
from rlmem.core.memory_classes import ARENAS, CLASSES, FILES, HEAP, PYMALLOC, SHARED, UNKNOWN
from rlmem.process.maps import Mapping as Mapped
from rlmem.process.pagemap import Pages
from rlmem.process.pools import Reader, find_pools
from rlmem.units import KIB, MIB

#: glibc maps blocks from this size on by themselves; smaller ones lie in its heaps.
MAPPED_BYTES = 128 * KIB
_SMALL = (PYMALLOC, HEAP, ARENAS)
_MEDIUM = (HEAP, ARENAS, UNKNOWN)
_LARGE = (UNKNOWN, ARENAS, HEAP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of resident memory of one class; ``share`` is 1 where every byte of it is known to be resident."""

    start: int
    end: int
    kind: str
    share: float = 1.0


@dataclass(slots=True)
class Claims:
    """What rows ask of the classes without knowing an address."""

    small: dict[int, int] = field(default_factory=dict)
    medium: dict[int, int] = field(default_factory=dict)
    large: dict[int, int] = field(default_factory=dict)


def no_memory(_places: Sequence[int], _length: int) -> Iterable[tuple[int, bytes]]:
    """A reader for processes whose memory may not be read."""
    return ()


def segments(pages: Pages, rows: Sequence[WalkRow] = (), read: Reader = no_memory) -> Iterator[Segment]:
    """Resident memory in address order; anonymous memory that Python's allocator has is told apart.

    Large storages of ``rows`` are not searched for it.
    """
    owned = [(start, end) for start, end, _ in extents(rows) if end - start >= MIB]
    for mapping, ranges, resident in zip(pages.mappings, pages.ranges, pages.resident, strict=True):
        if not resident:
            continue
        if not ranges:
            share = resident / mapping.nbytes
            yield Segment(start=mapping.start, end=mapping.end, kind=mapping.kind, share=share)
            continue
        pools = find_pools(_without(ranges, owned), read) if mapping.kind == UNKNOWN else ()
        share = resident / sum(end - start for start, end in ranges)
        for start, end in ranges:
            yield from _split(start, end, mapping.kind, pools, share)


def _without(ranges: Iterable[tuple[int, int]], taken: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Ranges less what is taken; both in address order."""
    starts = [start for start, _ in taken]
    for start, end in ranges:
        cursor = start
        index = max(bisect_right(starts, start) - 1, 0)
        while index < len(taken) and taken[index][0] < end:
            first, last = taken[index]
            if last > cursor:
                if first > cursor:
                    yield cursor, first
                cursor = max(cursor, last)
            index += 1
        if cursor < end:
            yield cursor, end


def _split(start: int, end: int, kind: str, pools: Sequence[tuple[int, int]], share: float) -> Iterator[Segment]:
    for first, last in pools:
        if last <= start or first >= end:
            continue
        if first > start:
            yield Segment(start=start, end=first, kind=kind, share=share)
        upto = min(last, end)
        yield Segment(start=max(first, start), end=upto, kind=PYMALLOC, share=share)
        start = upto
    if start < end:
        yield Segment(start=start, end=end, kind=kind, share=share)


def extents(rows: Sequence[WalkRow]) -> list[tuple[int, int, int]]:
    """``(start, end, row)`` in address order, without overlaps: a byte belongs to the first that covers it."""
    found = []
    for index, row in enumerate(rows):
        flat = row["extents"]
        found += [(flat[at], flat[at] + flat[at + 1], index) for at in range(0, len(flat), 2)]
    found.sort()
    clean, cursor = [], 0
    for start, end, index in found:
        if end > cursor:
            clean.append((max(start, cursor), end, index))
            cursor = end
    return clean


def attribute(
    parts: Iterable[Segment], rows: Sequence[WalkRow], mappings: Sequence[Mapped] = ()
) -> tuple[tuple[Holding, ...], tuple[Portion, ...], int]:
    """Holdings, classes and what is left unexplained, of resident segments and the rows an agent sent.

    ``mappings``, in address order, tell which rows lie in files.
    """
    left: dict[str, float] = dict.fromkeys((*CLASSES, UNKNOWN), 0.0)
    held = [0.0] * len(rows)
    spans = extents(rows)
    at, total = 0, 0.0
    for part in parts:
        nbytes = (part.end - part.start) * part.share
        total += nbytes
        left[part.kind] += nbytes
        while at < len(spans) and spans[at][1] <= part.start:
            at += 1
        index = at
        while index < len(spans) and spans[index][0] < part.end:
            start, end, owner = spans[index]
            overlap = (min(end, part.end) - max(start, part.start)) * part.share
            if overlap > 0:
                held[owner] += overlap
                left[part.kind] -= overlap
            if end > part.end:
                break
            index += 1
        at = index
    resident = [int(each) for each in held]
    files = _files(spans, len(rows), mappings)
    rows = _without_overlaps(rows, spans)
    _claim(left, rows, resident)
    portions = tuple(Portion(name=name, resident_bytes=int(left[name])) for name in CLASSES if int(left[name]) > 0)
    holdings = tuple(
        holding for row, each, file in zip(rows, resident, files, strict=True) for holding in _holdings(row, each, file)
    )
    named = sum(resident)
    unexplained = round(total) - named - sum(portion.resident_bytes for portion in portions)
    return holdings, portions, unexplained


def _files(spans: Sequence[tuple[int, int, int]], count: int, mappings: Sequence[Mapped]) -> list[str]:
    """For each row the file that most of its storage lies in; empty for what is the process's own."""
    found: list[dict[str, int]] = [{} for _ in range(count)]
    shared = [mapping for mapping in mappings if mapping.kind in {SHARED, FILES} and mapping.path]
    starts = [mapping.start for mapping in shared]
    for start, end, index in spans:
        at = bisect_right(starts, start) - 1
        path = shared[at].path if at >= 0 and start < shared[at].end else ""
        found[index][path] = found[index].get(path, 0) + end - start
    return [max(paths, key=lambda path: paths[path]) if paths else "" for paths in found]


def _without_overlaps(rows: Sequence[WalkRow], spans: Sequence[tuple[int, int, int]]) -> list[WalkRow]:
    """Rows less what lies in another's storage: a tensor over a part of an array has nothing of its own."""
    own = [0] * len(rows)
    for start, end, index in spans:
        own[index] += end - start
    return [
        {**row, "nbytes": max(0, row["nbytes"] - (row["covered"] - each)), "covered": each}
        if each < row["covered"]
        else row
        for row, each in zip(rows, own, strict=True)
    ]


def _claim(left: dict[str, float], rows: Sequence[WalkRow], resident: list[int]) -> None:
    """Let sizes without addresses take from the classes they lie in, in proportion where there is not enough."""
    claims = Claims()
    for index, row in enumerate(rows):
        unseen = max(0, row["nbytes"] - row["covered"])
        count = max(len(row["extents"]) // 2, 1)
        large = row["covered"] / count >= MAPPED_BYTES
        claims.small[index] = row["small"]
        claims.medium[index] = row["medium"] + (0 if large else unseen)
        claims.large[index] = unseen if large else 0
    for wanted, classes in ((claims.small, _SMALL), (claims.medium, _MEDIUM), (claims.large, _LARGE)):
        asked = dict(wanted)
        for name in classes:
            together = sum(asked.values())
            if together <= 0:
                break
            factor = min(1.0, max(0.0, left[name]) / together)
            for index, nbytes in asked.items():
                given = int(nbytes * factor)
                resident[index] += given
                left[name] -= given
                asked[index] = nbytes - given


def _holdings(row: WalkRow, resident: int, file: str) -> Iterator[Holding]:
    common: dict[str, Any] = {
        "path": row["path"],
        "kind": row["kind"],
        "type": row["type"],
        "filled": row["filled"],
        "capacity": row["capacity"],
        "estimated": bool(row["estimated"]),
        "note": row["note"],
        "graphs": row.get("graphs", 0),
        "graph_more": bool(row.get("graph_more")),
        "has_transitions": row.get("transitions"),
    }
    nbytes = row["nbytes"] + row["small"] + row["medium"]
    if row.get("less") or row.get("more"):
        share = resident / nbytes if nbytes else 1.0  # what is allocated and not resident yet is so in every part
        common["low_bytes"] = max(0, resident - round(share * row["less"]))
        common["high_bytes"] = resident + round(share * row["more"])
    graphs = min(row.get("graph_bytes", 0), resident)
    if nbytes or resident:
        yield Holding(nbytes=max(nbytes, resident), resident_bytes=resident, file=file, graph_bytes=graphs, **common)
    if row["vram"]:
        graphs = row["vram"] if row.get("graphs") else 0
        yield Holding(nbytes=row["vram"], resident_bytes=row["vram"], device="vram", graph_bytes=graphs, **common)


def memory_reader(pid: int) -> Callable[[Sequence[int], int], Iterable[tuple[int, bytes]]]:
    """Reads a few bytes of a process at many places."""
    from rlmem.process.pagemap import read_memory

    return lambda places, length: read_memory(pid, places, length)
