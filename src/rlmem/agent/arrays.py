"""Big arrays: seen when they are made, kept lazily backed, and asked at the end how much of them is resident.

``np.zeros`` and ``np.empty`` are lazy already. ``torch.zeros``, ``torch.ones``, ``np.ones`` and ``np.full`` write every
page at once; above a size they are made lazily here too, with the same contents.
"""

import weakref

from . import proc
from .state import call_site

#: Smaller arrays are not worth a line.
NOTED = 1 << 20
#: From here on an array that would be written at once is made lazily.
LAZY = 32 << 20
#: One piece of memory with the value repeated, mapped again and again; pages are copied when they are written.
PATTERN = 16 << 20


class Arrays:
    """The record of every big array that is alive."""

    def __init__(self, state):
        self.state = state
        self.records = []
        state.closers.append(self.close)

    def note(self, array, made_by):
        """Remember an ndarray or a tensor."""
        try:
            reference = weakref.ref(array)
        except TypeError:
            return array
        self.records.append((reference, made_by, call_site()))
        return array

    def alive(self):
        """``(array, made by, where)`` of each that still exists."""
        for reference, made_by, where in self.records:
            array = reference()
            if array is not None:
                yield array, made_by, where

    def close(self):
        """Put sizes, owners unknown, and what is resident into the facts."""
        rows = []
        seen = set()
        for array, made_by, where in self.alive():
            address, nbytes = span(array)
            if address in seen:
                continue
            seen.add(address)
            rows.append(
                {
                    "address": address,
                    "nbytes": nbytes,
                    "resident": proc.resident(address, nbytes) if address else nbytes,
                    "shape": [int(side) for side in array.shape],
                    "dtype": str(array.dtype).replace("torch.", ""),
                    "made_by": made_by,
                    "where": where,
                }
            )
        self.state.facts["arrays"] = rows

    # ------------------------------------------------------------------ numpy

    def watch_numpy(self, numpy):
        """Replace the constructors by ones that record."""
        for name in ("zeros", "empty"):
            setattr(numpy, name, self._recorded(getattr(numpy, name), "numpy." + name))
        for name, position in (("ones", None), ("full", 1)):
            setattr(numpy, name, self._lazy_numpy(numpy, getattr(numpy, name), name, position))

    def _recorded(self, function, name):
        def made(*args, **kwargs):
            array = function(*args, **kwargs)
            if getattr(array, "nbytes", 0) >= NOTED:
                self.note(array, name)
            return array

        made.__name__, made.__doc__, made.__wrapped__ = function.__name__, function.__doc__, function
        return made

    def _lazy_numpy(self, numpy, function, name, position):
        def made(shape, *args, **kwargs):
            value = 1
            rest, options = list(args), dict(kwargs)
            if position is not None:
                value = options.pop("fill_value") if "fill_value" in options else (rest.pop(0) if rest else None)
            try:
                dtype = numpy.dtype(options.get("dtype") or (rest[0] if rest else None) or numpy.asarray(value).dtype)
                if name == "ones" and not (options.get("dtype") or rest):
                    dtype = numpy.dtype(float)
                sides = (int(shape),) if numpy.isscalar(shape) else tuple(int(side) for side in shape)
                nbytes = dtype.itemsize
                for side in sides:
                    nbytes *= side
                simple = (
                    numpy.ndim(value) == 0 and not dtype.hasobject and not set(options) - {"dtype"} and len(rest) < 2
                )
            except (TypeError, ValueError):
                simple, nbytes = False, 0
            if simple and nbytes >= LAZY:
                array = repeated(numpy, value, dtype, sides, nbytes)
                if array is not None:
                    return self.note(array, "numpy." + name)
            array = function(shape, *args, **kwargs)
            if getattr(array, "nbytes", 0) >= NOTED:
                self.note(array, "numpy." + name)
            return array

        made.__name__, made.__doc__, made.__wrapped__ = function.__name__, function.__doc__, function
        return made

    # ------------------------------------------------------------------ torch

    def watch_torch(self, torch):
        """The same for tensors on the CPU; ``zeros`` becomes a tensor over lazy numpy memory."""
        for name in ("zeros", "ones", "full", "empty"):
            setattr(torch, name, self._lazy_torch(torch, getattr(torch, name), name))

    def _lazy_torch(self, torch, function, name):
        import numpy

        values = {"zeros": 0, "ones": 1}

        def made(*args, **kwargs):
            plain = not set(kwargs) - {"dtype", "requires_grad", "size"} and name in values
            if plain:
                size = kwargs.get("size", args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
                dtype = kwargs.get("dtype") or torch.get_default_dtype()
                nbytes = _torch_bytes(torch, size, dtype)
                if nbytes >= LAZY and not _device_changed(torch):
                    kind = numpy_dtype(numpy, torch, dtype)
                    if kind is not None:
                        sides = tuple(int(side) for side in size)
                        array = (
                            getattr(numpy.zeros, "__wrapped__", numpy.zeros)(sides, kind)
                            if name == "zeros"
                            else repeated(numpy, 1, kind, sides, nbytes)
                        )
                        if array is not None:
                            tensor = torch.from_numpy(array)
                            if kwargs.get("requires_grad"):
                                tensor.requires_grad_()
                            return self.note(tensor, "torch." + name)
            tensor = function(*args, **kwargs)
            try:
                big = tensor.device.type == "cpu" and tensor.numel() * tensor.element_size() >= NOTED
            except (AttributeError, RuntimeError):
                big = False
            return self.note(tensor, "torch." + name) if big else tensor

        made.__name__, made.__doc__, made.__wrapped__ = name, getattr(function, "__doc__", None), function
        return made


def _torch_bytes(torch, size, dtype):
    nbytes = torch.empty.__wrapped__(0, dtype=dtype).element_size() if hasattr(torch.empty, "__wrapped__") else 4
    try:
        for side in size:
            nbytes *= int(side)
    except (TypeError, ValueError):
        return 0
    return nbytes


def _device_changed(torch):
    try:
        return torch.get_default_device().type != "cpu"
    except AttributeError:  # before torch 2.3
        return False


def numpy_dtype(numpy, torch, dtype):
    """The numpy kind of a torch one; ``None`` for those numpy does not have."""
    name = str(dtype).replace("torch.", "")
    return None if name in ("bfloat16", "bool") or not hasattr(numpy, name) else numpy.dtype(name)


def span(array):
    """Address and bytes of the storage beneath an ndarray or a CPU tensor."""
    if hasattr(array, "__array_interface__") and not hasattr(array, "untyped_storage"):
        return array.__array_interface__["data"][0], array.nbytes
    if array.device.type != "cpu":
        return 0, array.numel() * array.element_size()
    storage = array.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def touch(address, nbytes):
    """Make every page of a range resident without changing a byte of it."""
    import ctypes

    import numpy

    view = numpy.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), dtype=numpy.uint8)
    view[:: proc.PAGE] |= 0
    view[-1:] |= 0


def repeated(numpy, value, dtype, shape, nbytes):
    """An array full of one value whose pages all show the same small piece of memory until they are written."""
    import ctypes
    import mmap
    import os

    if not hasattr(os, "memfd_create"):
        return None
    piece = PATTERN - PATTERN % dtype.itemsize
    piece -= piece % mmap.PAGESIZE
    if piece % dtype.itemsize:
        return None
    whole = (nbytes + piece - 1) // piece * piece
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    handle = os.memfd_create("rlmem-pattern")
    try:
        os.ftruncate(handle, piece)
        with mmap.mmap(handle, piece) as view:
            filled = numpy.frombuffer(view, dtype=dtype)
            filled[...] = value
            del filled
        area = mmap.mmap(-1, whole)
        holder = (ctypes.c_ubyte * whole).from_buffer(area)
        base = ctypes.addressof(holder)
        for start in range(0, whole, piece):
            got = libc.mmap(base + start, piece, 0x3, 0x2 | 0x10, handle, 0)  # PROT_READ|WRITE, MAP_PRIVATE|MAP_FIXED
            if got in (None, ctypes.c_void_p(-1).value):
                return None
    except (OSError, ValueError):
        return None
    finally:
        os.close(handle)
    return numpy.frombuffer(holder, dtype=dtype, count=nbytes // dtype.itemsize).reshape(shape)
