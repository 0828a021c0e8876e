"""Memory for big arrays that costs nothing until it is written, however large it is and whatever the kernel promises.

The kernel refuses a private mapping larger than RAM (``vm.overcommit_memory`` 0), more than it has promised in all (2),
or more address space or data than ``ulimit -v`` and ``-d`` allow. Three ways are tried:

- a private mapping without reserve: modes 0 and 1;
- a shared mapping of a sparse file in memory: mode 2 and ``ulimit -d``, which count private memory only. Reading a page
  of it takes one, and forked children share it;
- rows that overlap in memory: ``ulimit -v``. An array's rows then show what was written last thereabouts.
"""

import ctypes
import math
import mmap
import os

from . import proc

PRIVATE, SHARED, OVERLAPPING = "private", "shared", "overlapping"
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
FIXED = 0x10
#: A repeated value is written once into a piece of memory of this size, which is mapped again and again.
LEAST_PIECE, MOST_PIECE = 2 << 20, 64 << 20
#: Mappings one array may take, and the share of those a process may have (``vm.max_map_count``, 65,530) for all.
PIECES, MAPS_SHARE = 8192, 0.5
#: Of the address space that is left under ``ulimit -v``, arrays take this share at most.
SPACE_SHARE = 0.5
#: Where every mapping of ours begins: its end, its way and the bytes of the array in it.
mapped = {}


def overcommit_mode():
    """``vm.overcommit_memory``; 0 where it cannot be read."""
    text = (proc.read(proc.PROC + "/sys/vm/overcommit_memory") or b"0").strip()
    return int(text) if text.isdigit() else 0


def raise_limits():
    """Lift the limits on address space and data as far as this process may: nothing of it will be written."""
    import resource

    for name in ("RLIMIT_AS", "RLIMIT_DATA"):
        kind = getattr(resource, name)
        for most in (resource.RLIM_INFINITY, resource.getrlimit(kind)[1]):
            try:
                resource.setrlimit(kind, (most, most))
                break
            except (OSError, ValueError):  # only root may raise the hard limit
                continue


def space_left():
    """Bytes of address space this process may still map; ``None`` for no limit."""
    import resource

    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft == resource.RLIM_INFINITY:
        return None
    text = (proc.read(proc.PROC + "/self/statm") or b"0").split()
    return max(0, soft - int(text[0]) * proc.PAGE)


def pages(nbytes):
    """Whole pages."""
    return (nbytes + proc.PAGE - 1) // proc.PAGE * proc.PAGE


def area(nbytes):
    """``(mapping, way)`` of so many bytes of zeros; ``None`` where the kernel has no room for them."""
    left = space_left()
    if left is not None and nbytes > SPACE_SHARE * left:
        return None
    ways = (_private, _shared) if overcommit_mode() != 2 else (_shared, _private)
    for way in ways:
        try:
            found = way(pages(nbytes) + proc.PAGE)  # the last page keeps the kernel from joining two mappings
        except (OSError, ValueError, OverflowError):
            continue
        kept(found, PRIVATE if way is _private else SHARED)
        return found
    return None


def _private(nbytes):
    return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)


def _shared(nbytes):
    handle = os.memfd_create("rlmem-array")
    try:
        os.ftruncate(handle, nbytes)
        return mmap.mmap(handle, nbytes, flags=mmap.MAP_SHARED)
    finally:
        os.close(handle)


def kept(found, way):
    """Remember a mapping, and close its last page."""
    begin, nbytes = address(found), len(found)
    library().mprotect(begin + nbytes - proc.PAGE, proc.PAGE, 0)
    mapped[begin] = (begin + nbytes, way, nbytes - proc.PAGE)


def address(found):
    """Where a mapping begins."""
    return ctypes.addressof(ctypes.c_char.from_buffer(found))


def library():
    """The C library, with what is called of it."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


def zeros(numpy, shape, dtype, order="C"):
    """An array of zeros; ``None`` where there is no way to hold it."""
    nbytes = math.prod(shape) * dtype.itemsize
    found = area(nbytes)
    if found is not None:
        return numpy.ndarray(shape, dtype, buffer=found, order=order)
    return overlapping(numpy, shape, dtype)


def overlapping(numpy, shape, dtype):
    """An array whose rows begin one value after each other, or not even that."""
    row = math.prod(shape[1:]) * dtype.itemsize
    left = space_left()
    for stride in (dtype.itemsize, 0):
        nbytes = row + stride * (shape[0] - 1)
        if left is None or nbytes > SPACE_SHARE * left:
            continue
        found = area(nbytes)
        if found is not None:
            mapped[address(found)] = (address(found) + nbytes, OVERLAPPING, math.prod(shape) * dtype.itemsize)
            strides = [dtype.itemsize]
            for side in reversed(shape[2:]):
                strides.insert(0, strides[0] * side)
            return numpy.ndarray(shape, dtype, buffer=found, strides=(stride, *strides[: len(shape) - 1]))
    return None


def repeated(numpy, unit, dtype, shape, order="C"):
    """``(array, whole)``: one full of a value, or of the bytes of a row of values, given as ``unit``.

    Its pages show the same piece of memory until they are written. The kernel has only so many mappings for a process;
    what lies beyond them is zeros, and ``whole`` says that nothing does. ``None`` where there is no way to hold it.
    """
    array = zeros(numpy, shape, dtype, order)
    if array is None or not any(unit):
        return array, True
    begin = array.__array_interface__["data"][0]
    if mapped[begin][1] != PRIVATE:
        return array, False
    step = len(unit) * proc.PAGE // math.gcd(len(unit), proc.PAGE)
    count = min(PIECES, int(MAPS_SHARE * most_maps()) - maps())
    if count < 1 or not hasattr(os, "memfd_create"):
        return array, False
    wanted = min(max(LEAST_PIECE, array.nbytes // count), MOST_PIECE)
    piece = -(-wanted // step) * step
    if piece > 2 * MOST_PIECE:
        return array, False
    end = begin + min(array.nbytes, count * piece)
    handle = os.memfd_create("rlmem-pattern")
    try:
        os.ftruncate(handle, piece)
        with mmap.mmap(handle, piece) as view:
            filled = numpy.frombuffer(view, dtype=numpy.uint8).reshape(-1, len(unit))
            filled[...] = numpy.frombuffer(unit, dtype=numpy.uint8)
            del filled
        libc = library()
        flags = mmap.MAP_PRIVATE | FIXED | NO_RESERVE
        for start in range(begin, end, piece):
            size = min(piece, pages(end - start))
            got = libc.mmap(start, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, handle, 0)
            if got in (None, ctypes.c_void_p(-1).value):
                return array, False
    finally:
        os.close(handle)
    return array, end == begin + array.nbytes


def most_maps():
    """Mappings a process may have."""
    text = (proc.read(proc.PROC + "/sys/vm/max_map_count") or b"").strip()
    return int(text) if text.isdigit() else 65530


def maps():
    """Mappings this process has."""
    return (proc.read(proc.PROC + "/self/maps") or b"").count(b"\n")


def written(pid="self"):
    """Bytes of memory of its own by address of each mapping of a process: ``[(begin, end, bytes)]``, in order."""
    found, begin, end = [], 0, 0
    private = resident = swap = 0
    is_shared = False
    for line in (proc.read("%s/%s/smaps" % (proc.PROC, pid)) or b"").splitlines():
        head = line.split(None, 1)[0]
        if not head.endswith(b":"):
            begin, end = (int(part, 16) for part in head.split(b"-"))
            is_shared = line.split()[1][3:4] == b"s"
            private = resident = swap = 0
        elif head == b"Rss:":
            resident = int(line.split()[1]) << 10
        elif head == b"Anonymous:":
            private = int(line.split()[1]) << 10
        elif head == b"Swap:":
            swap = int(line.split()[1]) << 10
            found.append((begin, end, (resident if is_shared else private) + swap))
    return found


def held(begin, nbytes, found):
    """Bytes of a range that were written, by :func:`written`."""
    return min(nbytes, sum(size for start, end, size in found if begin <= start and end <= begin + pages(nbytes)))


def way_at(begin):
    """How an array is held that begins there; ``None`` for one that is not held here."""
    return mapped.get(begin, (0, None))[1]


def resident(begin, nbytes):
    """Bytes of an array that were written; of a mapping of ours without looking at every page."""
    if begin not in mapped:
        return proc.resident(begin, nbytes)
    end, way, _ = mapped[begin]
    return proc.resident(begin, end - begin) if way == OVERLAPPING else held(begin, nbytes, written())
