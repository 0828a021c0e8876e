"""Arrays larger than the machine, held without memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from rlmem.agent import lazy, proc

numpy = pytest.importorskip("numpy")
BYTE = numpy.dtype("u1")


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_ten_terabytes_take_what_is_written_of_them(mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy, "overcommit_mode", lambda: mode)
    array = lazy.zeros(numpy, (10**8, 100_000), BYTE)
    begin = array.__array_interface__["data"][0]
    assert lazy.way_at(begin) == (lazy.SHARED if mode == 2 else lazy.PRIVATE)
    other = lazy.zeros(numpy, (10**6, 1000), BYTE)
    other[:100_000] = 1
    array[7] = 3
    array[-1, -1] = 1
    assert array[7, 5] == 3
    assert 100_000 <= lazy.resident(begin, array.nbytes) <= 100_000 + 3 * proc.PAGE


@pytest.mark.parametrize("mode", [1, 2])
def test_the_kernel_reserves_nothing_for_an_array(mode: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # In mode 1 a mapping without reserve ("nr"), in mode 2, which ignores that, a shared one ("sh") of a sparse file.
    monkeypatch.setattr(lazy, "overcommit_mode", lambda: mode)
    array = lazy.zeros(numpy, (10**6, 84, 84), BYTE)
    begin = b"%x-" % array.__array_interface__["data"][0]
    text = proc.read("/proc/self/smaps") or b""
    flags = text[text.index(b"\n" + begin) :].split(b"VmFlags:", 1)[1].splitlines()[0].split()
    assert (b"sh" if mode == 2 else b"nr") in flags


def test_a_repeated_value_takes_one_piece() -> None:
    before = proc.rss()
    array, whole = lazy.repeated(numpy, numpy.float32(2.5).tobytes(), numpy.dtype("f4"), (10**6, 7056))
    assert whole
    assert array[0, 0] == array[123_456, 7] == array[-1, -1] == 2.5
    array[:100] = 1
    begin = array.__array_interface__["data"][0]
    assert lazy.resident(begin, array.nbytes) == pytest.approx(100 * 7056 * 4, abs=2 * proc.PAGE)
    assert proc.rss() - before < 100 << 20
    assert lazy.maps() < 12_000


def test_a_repeated_row_and_a_value_for_more_than_there_are_mappings() -> None:
    row = numpy.arange(7.0)
    array, whole = lazy.repeated(numpy, row.tobytes(), row.dtype, (10**6, 7))
    assert whole
    assert (array[[0, 123_457, -1]] == row).all()
    array, whole = lazy.repeated(numpy, b"\1", BYTE, (10**13,))
    assert not whole
    assert array[0] == 1
    assert array[-1] == 0
    assert lazy.maps() < 0.6 * lazy.most_maps()


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v")
def test_rows_overlap_where_the_address_space_is_limited() -> None:
    program = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
sys.path.insert(0, sys.argv[1])
import numpy
from rlmem.agent import lazy
array = lazy.zeros(numpy, (10**8, 4, 84, 84), numpy.dtype("u1"))
assert lazy.way_at(array.__array_interface__["data"][0]) == lazy.OVERLAPPING
array[99] = 5
assert (array[99] == 5).all() and array.nbytes > 2e12
array[numpy.array([1, 99_000_000])] = 3
"""
    source = os.path.dirname(os.path.dirname(os.path.dirname(lazy.__file__)))
    subprocess.run([sys.executable, "-c", program, source], check=True)
