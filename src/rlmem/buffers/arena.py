"""Memory in segments of one size, taken as it is needed and used again; the oldest can go to a file."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import tempfile
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rlmem.errors import AnalysisError, UsageError

#: Segments come from the system in extents of at least this much: few mappings, and few lines in /proc/PID/maps.
EXTENT_BYTES = 32 << 20
#: From here on, whole extents are worth huge pages.
LARGE_BYTES = 128 << 20
#: No less than this is asked for at a time.
LEAST_EXTENT = 256 << 10
#: Filesystems that live in RAM: spilling to them would save nothing.
RAM_FILESYSTEMS = frozenset({"tmpfs", "ramfs", "devtmpfs"})


class SpillFile:
    """A file no other process can open: it is unlinked as soon as it exists and goes when the process does."""

    def __init__(self, folder: str | os.PathLike[str], segment_bytes: int) -> None:
        self.folder = Path(folder)
        self.segment_bytes = segment_bytes
        self.pid = os.getpid()
        try:
            handle, name = tempfile.mkstemp(prefix="rlmem-", suffix=".spill", dir=self.folder)
        except OSError as problem:
            raise UsageError(
                f"cannot spill to {self.folder}: {problem.strerror}; name a writable folder on a disk"
            ) from None
        Path(name).unlink()
        self._handle = handle
        self._windows: list[mmap.mmap] = []
        self._addresses: list[int] = []
        self._free: deque[int] = deque()
        self._per_window = max(1, EXTENT_BYTES // segment_bytes)
        # A window starts where a page does.
        self._window_bytes = -(-self._per_window * segment_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        return self._used * self.segment_bytes

    def write(self, data: npt.NDArray[np.uint8]) -> tuple[int, int]:
        """Put one segment on disk: its slot and the address it can be read at. A full disk is refused first."""
        slot = self._free.popleft() if self._free else self._used
        window, at = divmod(slot, self._per_window)
        offset = window * self._window_bytes + at * self.segment_bytes
        try:
            if slot == self._used:
                if slot == len(self._windows) * self._per_window:
                    self._map_window()
                os.posix_fallocate(self._handle, offset, self.segment_bytes)
            os.pwrite(self._handle, data.data, offset)
        except OSError as problem:
            if slot != self._used:
                self._free.appendleft(slot)
            if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise AnalysisError(
                    f"the disk under {self.folder} is full ({self.nbytes:,} bytes spilled): nothing was lost; free some "
                    "space, or make the buffer smaller"
                ) from None
            raise AnalysisError(f"cannot spill to {self.folder}: {problem.strerror}") from None
        self._used = max(self._used, slot + 1)
        return slot, self._addresses[window] + at * self.segment_bytes

    def _map_window(self) -> None:
        size = self._window_bytes
        start = len(self._windows) * size
        os.ftruncate(self._handle, start + size)
        window = mmap.mmap(self._handle, size, mmap.MAP_SHARED, mmap.PROT_READ, offset=start)
        self._windows.append(window)
        self._addresses.append(np.frombuffer(window, np.uint8).__array_interface__["data"][0])

    def free(self, slot: int) -> None:
        """Let another segment have this place."""
        self._free.append(slot)

    def forget(self) -> None:
        """Drop the pages sampling has brought in; they come back from the file when read."""
        for window in self._windows:
            window.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Give the disk space back."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        if getattr(self, "_handle", -1) >= 0 and self.pid == os.getpid():
            self.close()


def check_spill(folder: str | os.PathLike[str], mounts: Path = Path("/proc/mounts")) -> None:
    """Refuse a folder that is not there, not writable, or in RAM."""
    path = Path(folder)
    if not path.is_dir():
        raise UsageError(f"spill={str(folder)!r} is not a folder")
    if not os.access(path, os.W_OK):
        raise UsageError(f"spill={str(folder)!r} is not writable")
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return
    real = str(path.resolve())
    over = [line for line in lines if len(line) > 2 and (real == line[1] or real.startswith(line[1].rstrip("/") + "/"))]
    if over and max(over, key=lambda line: len(line[1]))[2] in RAM_FILESYSTEMS:
        raise UsageError(f"spill={str(folder)!r} is in RAM (tmpfs): name a folder on a disk")


def _mapped(size: int, *, huge: bool) -> mmap.mmap:
    """Memory straight from the system: resident page by page as it is written, and given back whole.

    The C library would keep freed pieces. Huge pages make reading here and there quicker, and a small store megabytes larger.
    """
    # Python maps shared memory unless told otherwise: a forked process would then write into its parent's buffer.
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    region = mmap.mmap(-1, size, **private)
    advice = "MADV_HUGEPAGE" if huge else "MADV_NOHUGEPAGE"
    if hasattr(mmap, advice):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            region.madvise(getattr(mmap, advice))
    return region


class Arena:
    """Segments of one size. Resident is what was ever written; reserved is what was asked of the system."""

    def __init__(self, segment_bytes: int, *, expected_bytes: int) -> None:
        self.segment_bytes = segment_bytes
        #: What it will come to hold, about; memory is asked for in pieces that suit it.
        self._expected_bytes = expected_bytes
        self._extents: list[npt.NDArray[np.uint8]] = []
        self._homes: list[int] = []
        self._regions: list[mmap.mmap | None] = []
        self._places: deque[int] = deque()
        self._dropped: set[int] = set()
        self._touched = 0
        self._names: deque[int] = deque()
        self.addresses = np.zeros(16, np.int64)
        #: Counts the times the addresses moved.
        self.version = 0
        self._place_of: dict[int, int] = {}
        self._slot_of: dict[int, int] = {}
        self.order: deque[int] = deque()
        self.spill: SpillFile | None = None

    @property
    def nbytes(self) -> int:
        """Bytes in RAM that have been handed out at least once."""
        return (self._touched - len(self._dropped)) * self.segment_bytes + self.addresses.nbytes

    @property
    def reserved_nbytes(self) -> int:
        """Bytes asked of the system."""
        return sum(extent.nbytes for extent in self._extents) + self.addresses.nbytes

    @property
    def live_segments(self) -> int:
        """Segments in RAM that hold something."""
        return len(self._place_of)

    def take(self) -> int:
        """A segment to write to; its number names it wherever it goes."""
        name = self._names.popleft() if self._names else len(self._place_of) + len(self._slot_of)
        if name >= self.addresses.size:
            grown = np.zeros(self.addresses.size * 2, np.int64)
            grown[: self.addresses.size] = self.addresses
            self.addresses = grown
            self.version += 1
        place = self._places.popleft() if self._places else self._fresh_place()
        self._dropped.discard(place)
        self._place_of[name] = place
        self.addresses[name] = self._homes[place]
        self.order.append(name)
        return name

    def _fresh_place(self) -> int:
        place = self._touched
        if place == len(self._homes):
            nbytes, huge = self._extent()
            count = max(1, nbytes // self.segment_bytes)
            region = _mapped(count * self.segment_bytes, huge=huge)
            extent = np.frombuffer(region, np.uint8)
            start = extent.__array_interface__["data"][0]
            self._extents.append(extent)
            self._regions += [region] * count
            self._homes += [start + i * self.segment_bytes for i in range(count)]
        self._touched += 1
        return place

    def _extent(self) -> tuple[int, bool]:
        """How much to ask for next, and whether in huge pages: not for a small arena, nor for the last piece of a large one."""
        held = sum(extent.nbytes for extent in self._extents)
        to_come = self._expected_bytes - held
        if self._expected_bytes >= LARGE_BYTES and to_come >= EXTENT_BYTES:
            return EXTENT_BYTES, True
        # Past what was expected, it grows by an eighth at a time.
        step = min(to_come, self._expected_bytes // 16) if to_come > 0 else held // 8
        return min(max(step, LEAST_EXTENT), EXTENT_BYTES), False

    def give(self, name: int) -> None:
        """Take a segment back, in RAM or on disk."""
        if name in self._place_of:
            self._places.appendleft(self._place_of.pop(name))
        elif self.spill is not None:
            self.spill.free(self._slot_of.pop(name))
        self._names.append(name)
        if self.order and self.order[0] == name:
            self.order.popleft()
        else:
            self.order.remove(name)

    def trim(self) -> None:
        """Give the pages of free segments back to the system; those that lie side by side, together."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        free = sorted(place for place in set(self._places) - self._dropped if self._regions[place] is not None)
        runs: list[list[int]] = []
        for place in free:
            if runs and place == runs[-1][-1] + 1 and self._regions[place] is self._regions[place - 1]:
                runs[-1].append(place)
            else:
                runs.append([place])
        for run in runs:
            region = self._regions[run[0]]
            assert region is not None
            base = np.frombuffer(region, np.uint8).__array_interface__["data"][0]
            start = -(-(self._homes[run[0]] - base) // mmap.PAGESIZE) * mmap.PAGESIZE
            end = (self._homes[run[-1]] - base + self.segment_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
            if end > start:
                region.madvise(mmap.MADV_DONTNEED, start, end - start)
                self._dropped.update(run)

    def data(self, name: int) -> npt.NDArray[np.uint8]:
        """The bytes of a segment, in RAM or on disk. They stay where they are: hold the arena as long as the array."""
        block = (ctypes.c_uint8 * self.segment_bytes).from_address(int(self.addresses[name]))
        return np.frombuffer(memoryview(block), np.uint8)

    @property
    def names(self) -> list[int]:
        """Segments that hold something, oldest first."""
        return list(self.order)

    def adopt(self, segments: Iterable[tuple[int, npt.NDArray[np.uint8]]]) -> None:
        """Take over arrays as segments, under their names, without a copy; into an arena that has none."""
        given = list(segments)
        top = max((name for name, _ in given), default=-1) + 1
        self.addresses = np.zeros(max(16, top), np.int64)
        for place, (name, array) in enumerate(given):
            self._extents.append(array)
            self._homes.append(array.__array_interface__["data"][0])
            self._regions.append(None)
            self._place_of[name] = place
            self.addresses[name] = self._homes[place]
            self.order.append(name)
        self._touched = len(given)
        self._names.extend(sorted(set(range(top)) - set(self._place_of)))

    def spill_oldest(self, folder: str, open_segments: set[int]) -> bool:
        """Move the oldest segment that is in RAM and not being written to disk; False when there is none."""
        name = next((n for n in self.order if n in self._place_of and n not in open_segments), None)
        if name is None:
            return False
        if self.spill is None:
            self.spill = SpillFile(folder, self.segment_bytes)
        slot, address = self.spill.write(self.data(name))
        self._places.appendleft(self._place_of.pop(name))
        self._slot_of[name] = slot
        self.addresses[name] = address
        return True
