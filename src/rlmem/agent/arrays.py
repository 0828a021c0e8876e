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
        self.numpy = numpy
        for name in ("zeros", "empty", "empty_like"):
            replace(numpy, name, self._recorded(getattr(numpy, name), "numpy." + name))
        replace(numpy, "ones", self._filled(numpy, numpy.ones, lambda shape, dtype=None: (shape, 1, dtype or float)))
        replace(
            numpy,
            "full",
            self._filled(numpy, numpy.full, lambda shape, fill_value, dtype=None: (shape, fill_value, dtype)),
        )
        replace(
            numpy,
            "zeros_like",
            self._filled(numpy, numpy.zeros_like, lambda a, dtype=None: (a.shape, 0, dtype or a.dtype)),
        )
        replace(
            numpy,
            "ones_like",
            self._filled(numpy, numpy.ones_like, lambda a, dtype=None: (a.shape, 1, dtype or a.dtype)),
        )

    def unwatch_numpy(self, numba):
        """Numba compiles calls of ``np.zeros`` by what they are: it gets the originals back."""
        for name in ("zeros", "empty", "empty_like", "ones", "full", "zeros_like", "ones_like"):
            setattr(self.numpy, name, getattr(getattr(self.numpy, name), "__wrapped__", getattr(self.numpy, name)))
        self.state.note("numba is used: from its import on, numpy arrays outside known buffers are not recorded")

    def _recorded(self, function, name):
        def made(*args, **kwargs):
            array = function(*args, **kwargs)
            if getattr(array, "nbytes", 0) >= NOTED:
                self.note(array, name)
            return array

        return made

    def _filled(self, numpy, function, read):
        """A constructor that would write every page; above a size its pages are made lazily, with the same contents.

        ``read`` takes the plain forms of its arguments; any other form is left to the original.
        """
        zeros = getattr(numpy.zeros, "__wrapped__", numpy.zeros)

        def made(*args, **kwargs):
            array = None
            try:
                shape, value, dtype = read(*args, **kwargs)
                dtype = numpy.asarray(value).dtype if dtype is None else numpy.dtype(dtype)
                sides = (int(shape),) if numpy.ndim(shape) == 0 else tuple(int(side) for side in shape)
                nbytes = dtype.itemsize
                for side in sides:
                    nbytes *= side
                if nbytes >= LAZY and numpy.ndim(value) == 0 and not dtype.hasobject:
                    plain = numpy.asarray(value).astype(dtype)
                    array = repeated(numpy, plain, dtype, sides, nbytes) if plain.any() else zeros(sides, dtype)
            except (TypeError, ValueError, AttributeError):
                pass
            if array is None:
                array = function(*args, **kwargs)
            return self.note(array, "numpy." + function.__name__) if getattr(array, "nbytes", 0) >= NOTED else array

        return made

    # ------------------------------------------------------------------ torch

    def watch_torch(self, torch):
        """The same for tensors on the CPU; ``zeros`` becomes a tensor over lazy numpy memory."""
        for name in ("zeros", "ones", "full", "empty"):
            replace(torch, name, self._lazy_torch(torch, getattr(torch, name), name))

    def _lazy_torch(self, torch, function, name):
        import numpy

        values = {"zeros": 0, "ones": 1}

        def lazy(*args, **kwargs):
            device = kwargs.pop("device", None)
            if set(kwargs) - {"dtype", "requires_grad", "size"} or name not in values or not on_cpu(torch, device):
                return None
            size = kwargs.get("size", args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
            dtype = kwargs.get("dtype") or torch.get_default_dtype()
            nbytes = _torch_bytes(torch, size, dtype)
            kind = numpy_dtype(numpy, torch, dtype)
            if nbytes < LAZY or kind is None:
                return None
            sides = tuple(int(side) for side in size)
            zeros = getattr(numpy.zeros, "__wrapped__", numpy.zeros)
            array = zeros(sides, kind) if name == "zeros" else repeated(numpy, 1, kind, sides, nbytes)
            if array is None:
                return None
            tensor = torch.from_numpy(array)
            return tensor.requires_grad_() if kwargs.get("requires_grad") else tensor

        def made(*args, **kwargs):
            tensor = lazy(*args, **kwargs)
            if tensor is None:
                tensor = function(*args, **kwargs)
            try:
                big = tensor.device.type == "cpu" and tensor.numel() * tensor.element_size() >= NOTED
            except (AttributeError, RuntimeError):
                big = False
            return self.note(tensor, "torch." + name) if big else tensor

        return made


class Hook:
    """Stands for a function of a module: called in its place, and pickled as the module's own, for other processes."""

    def __init__(self, function, call, module):
        self.__wrapped__, self._call = function, call
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__, self.__module__ = function.__doc__, module

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __reduce__(self):
        return self.__name__


def replace(module, name, call):
    """Put a hook before a module's function."""
    setattr(module, name, Hook(getattr(module, name), call, module.__name__))


def on_cpu(torch, device):
    """Whether a ``device`` argument, or its absence, means the CPU."""
    if device is not None:
        return str(device) == "cpu"
    try:
        return torch.get_default_device().type == "cpu"
    except AttributeError:  # before torch 2.3
        return True


def _torch_bytes(torch, size, dtype):
    nbytes = torch.empty.__wrapped__(0, dtype=dtype).element_size() if hasattr(torch.empty, "__wrapped__") else 4
    try:
        for side in size:
            nbytes *= int(side)
    except (TypeError, ValueError):
        return 0
    return nbytes


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
