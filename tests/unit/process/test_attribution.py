"""Named, classes and unexplained add up to what is resident, to the byte, whatever rows an agent sends."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlmem.core.memory_classes import CLASSES, HEAP, LIBRARY_CODE, PYMALLOC, SHARED, UNKNOWN
from rlmem.process.attribution import Segment, attribute, extents, segments
from rlmem.process.maps import Mapping
from rlmem.process.pagemap import Pages

PAGE = 4096


def row(*spans: tuple[int, int], **more: Any) -> dict[str, Any]:
    flat = [number for span in spans for number in span]
    nbytes = sum(flat[1::2])
    given = {"path": "x", "kind": "array", "type": "", "nbytes": nbytes, "covered": nbytes, "extents": flat}
    plain = {"small": 0, "medium": 0, "vram": 0, "filled": None, "capacity": None, "estimated": False, "note": ""}
    return {**given, **plain, **more}


def pages(*ranges: tuple[int, int], kind: str = UNKNOWN) -> list[Segment]:
    return [Segment(start=start, end=end, kind=kind) for start, end in ranges]


def test_a_storage_owns_what_of_it_is_resident_and_its_page_is_split() -> None:
    holdings, portions, unexplained = attribute(
        pages((0, 2 * PAGE), kind=HEAP), [row((100, PAGE)), row((PAGE * 4, PAGE))]
    )
    assert [each.resident_bytes for each in holdings] == [PAGE, 0]
    assert [(each.name, each.resident_bytes) for each in portions] == [(HEAP, PAGE)]
    assert unexplained == 0


def test_an_owner_says_which_file_most_of_it_lies_in_resident_or_not() -> None:
    mapped = (
        Mapping(start=0, end=8 * PAGE, perms="rw-p", kind=UNKNOWN),
        Mapping(start=8 * PAGE, end=16 * PAGE, perms="r--s", path="/dev/shm/plasmaAbCdEf (deleted)", kind=SHARED),
        Mapping(start=16 * PAGE, end=20 * PAGE, perms="r--p", path="/lib/x.so", kind=LIBRARY_CODE),
    )
    rows = [row((PAGE, PAGE)), row((9 * PAGE, 2 * PAGE)), row((0, PAGE), (12 * PAGE, 2 * PAGE)), row((17 * PAGE, PAGE))]
    holdings, _, _ = attribute(pages((0, 2 * PAGE)), rows, mapped)
    store = "/dev/shm/plasmaAbCdEf (deleted)"
    assert [each.file for each in holdings] == ["", store, store, ""]


def test_anonymous_memory_without_an_owner_is_unexplained() -> None:
    assert attribute(pages((0, 8 * PAGE)), [row((0, PAGE))])[2] == 7 * PAGE


def test_small_objects_take_no_more_than_there_is() -> None:
    rows = [row(small=3 * PAGE, kind="container"), row(small=9 * PAGE, kind="container")]
    holdings, portions, unexplained = attribute(pages((0, 4 * PAGE), kind=PYMALLOC), rows)
    assert [each.resident_bytes for each in holdings] == [PAGE, 3 * PAGE]
    assert sum(each.resident_bytes for each in portions) + unexplained == 0


def test_a_byte_claimed_twice_has_one_owner() -> None:
    assert extents([row((0, 100)), row((50, 100)), row((60, 10))]) == [(0, 100, 0), (100, 150, 1)]


def test_mappings_of_unknown_pages_share_in_proportion() -> None:
    mapping = Mapping(start=0, end=10 * PAGE, perms="rw-p")
    found = Pages(method="smaps", mappings=(mapping,), ranges=((),), resident=(5 * PAGE,))
    holdings, _, unexplained = attribute(segments(found), [row((0, 4 * PAGE))])
    assert (holdings[0].resident_bytes, unexplained) == (2 * PAGE, 3 * PAGE)


def test_gpu_memory_is_not_ram() -> None:
    holdings, _, unexplained = attribute(pages((0, PAGE)), [row(vram=123)])
    assert [(each.device, each.resident_bytes) for each in holdings] == [("vram", 123)]
    assert unexplained == PAGE


SPANS = st.lists(st.tuples(st.integers(0, 400_000), st.integers(0, 90_000)), max_size=5)


@given(
    parts=st.lists(
        st.tuples(st.integers(0, 100), st.integers(1, 9), st.sampled_from((*CLASSES, UNKNOWN))), max_size=12
    ),
    given_rows=st.lists(
        st.tuples(SPANS, st.integers(0, 300_000), st.integers(0, 300_000), st.floats(1, 50)), max_size=8
    ),
)
def test_the_sum_is_what_is_resident(parts: list[Any], given_rows: list[Any]) -> None:
    cursor, resident = 0, []
    for gap, length, kind in parts:
        start = cursor + gap * PAGE
        cursor = start + length * PAGE
        resident.append(Segment(start=start, end=cursor, kind=kind))
    rows = []
    for spans, small, medium, scale in given_rows:
        one = row(*spans, small=small, medium=medium)
        rows.append({**one, "nbytes": int(one["nbytes"] * scale)})
    holdings, portions, unexplained = attribute(resident, rows)
    total = sum(part.end - part.start for part in resident)
    assert sum(each.resident_bytes for each in (*holdings, *portions)) + unexplained == total
    assert unexplained >= 0
    assert all(each.resident_bytes >= 0 for each in holdings)
    assert all(each.nbytes >= each.resident_bytes for each in holdings)
