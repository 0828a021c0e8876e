"""Big arrays: seen when they are made, held without taking memory, and asked at the end how much of them was written.

``torch.zeros``, ``np.ones``, ``np.full`` and their like write every page at once, and an array larger than RAM cannot be
had at all. Above a size arrays are made over memory of :mod:`lazy` instead, with the same contents; so they are in forked
workers and, by way of :mod:`.worker`, in spawned ones.
"""

import json
import numbers
import os
import sys
import weakref

from . import lazy, proc
from .state import call_site

#: Smaller arrays are not worth a line.
NOTED = 1 << 20
#: From here on an array is held lazily.
LAZY = 32 << 20
#: Constructors that leave the writing to the run; the others write all of what they make.
LEAVING = frozenset(("numpy.zeros", "numpy.empty", "numpy.empty_like", "torch.empty", "torch.empty_like"))
#: A run fills an array evenly when the later part of the dry run wrote as much a step as all of it, within this factor.
EVEN = 2.0


class Arrays:
    """The record of every big array that is alive."""

    def __init__(self, state):
        self.state = state
        self.records = []
        #: Steps and bytes written at earlier looks, by address.
        self.looks = {}
        state.closers.append(self.close)

    def note(self, array, made_by):
        """Remember an ndarray or a tensor; in a worker, write down one that is held lazily."""
        try:
            reference = weakref.ref(array)
        except TypeError:
            return array
        if not self.state.forked:
            self.records.append((reference, made_by, call_site()))
        elif span(array)[0] in lazy.mapped:
            self.tell(array, made_by)
        return array

    def alive(self):
        """``(array, made by, where)`` of each that still exists."""
        for reference, made_by, where in self.records:
            array = reference()
            if array is not None:
                yield array, made_by, where

    def look(self):
        """How much is written now, to be compared with the end."""
        steps, found = self.state.facts.get("env_steps", 0), None
        for array, _, _ in self.alive():
            address, nbytes = span(array)
            if nbytes >= LAZY and address in lazy.mapped:
                found = found or lazy.written()
                self.looks.setdefault((None, address), []).append((steps, lazy.held(address, nbytes, found)))
        for row in self.of_workers():
            self.looks.setdefault((row["pid"], row["address"]), []).append((steps, row["resident"]))

    def close(self):
        """Put sizes, owners unknown, and what is written into the facts."""
        rows = []
        seen = set()
        for array, made_by, where in self.alive():
            address, nbytes = span(array)
            if address in seen:
                continue
            seen.add(address)
            resident = lazy.resident(address, nbytes) if address else nbytes
            row = describe(array, made_by, where)
            rows.append(dict(row, resident=resident, written=self.written(row, resident)))
        self.state.facts["arrays"] = rows
        self.state.facts["worker_arrays"] = list(self.of_workers())

    def written(self, row, resident):
        """Bytes the run will have written at its end, as far as its steps are known and it writes evenly; else ``None``."""
        steps, whole = self.state.facts.get("env_steps", 0), self.state.facts.get("steps")
        if self.state.facts.get("ended") and not row["whole"]:
            return resident  # the run is over, and writes no more
        if row["whole"] or not (steps and whole and resident) or lazy.way_at(row["address"]) == lazy.OVERLAPPING:
            return None
        looks = [
            (0, 0),
            *(look for look in self.looks.get((row.get("pid"), row["address"]), ()) if look[0] <= 0.75 * steps),
        ]
        before, least = looks[-1]
        now, later = resident / steps, (resident - least) / (steps - before)
        if not now / EVEN <= later <= now * EVEN:
            return None
        return min(row["nbytes"], int(max(now, later) * whole))

    # ---------------------------------------------------------------- workers

    def tell(self, array, made_by):
        """A line about an array of this worker, for the process that is planned."""
        folder = os.path.join(self.state.job["folder"], "arrays")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, str(os.getpid())), "a") as file:
            file.write(json.dumps(describe(array, made_by, call_site())) + "\n")

    def of_workers(self):
        """The arrays of the workers that are alive."""
        folder = os.path.join(self.state.job["folder"], "arrays")
        names = os.listdir(folder) if os.path.isdir(folder) else ()
        for pid in sorted(set(map(int, names)) & set(proc.tree(self.state.pid))):
            found = lazy.written(pid)
            begins = {begin for begin, _, _ in found}
            with open(os.path.join(folder, str(pid))) as file:
                rows = {row["address"]: row for row in map(json.loads, file)}
            for row in rows.values():
                if row["address"] in begins:  # else it has let it go
                    row.update(pid=pid, resident=lazy.held(row["address"], row["nbytes"], found))
                    yield dict(row, written=self.written(row, row["resident"]))

    # ------------------------------------------------------------------ numpy

    def watch_numpy(self, numpy):
        """Replace the constructors by ones that record, and hold large ones lazily."""

        def plain(shape, dtype=float, order="C"):
            return shape, 0, dtype, order

        def ones(shape, dtype=None, order="C"):
            return shape, 1, dtype or float, order

        def full(shape, fill_value, dtype=None, order="C"):
            return shape, fill_value, numpy.asarray(fill_value).dtype if dtype is None else dtype, order

        def like(a, dtype=None, order="K", subok=True, shape=None, value=0):
            if type(a) is not numpy.ndarray or (order in ("K", "A") and not a.flags.c_contiguous):
                raise TypeError
            return a.shape if shape is None else shape, value, dtype or a.dtype, "F" if order == "F" else "C"

        def ones_like(a, dtype=None, order="K", subok=True, shape=None):
            return like(a, dtype, order, subok, shape, 1)

        def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None):
            return like(a, dtype, order, subok, shape, fill_value)

        readers = {"zeros": plain, "empty": plain, "ones": ones, "full": full}
        readers.update({"zeros_like": like, "empty_like": like, "ones_like": ones_like, "full_like": full_like})
        for name, read in readers.items():
            replace(numpy, name, self._numpy(numpy, getattr(numpy, name), read))

    def _numpy(self, numpy, function, read):
        """``read`` takes the plain forms of a constructor's arguments; any other form is left to the original."""

        def lazily(args, kwargs):
            shape, value, dtype, order = read(*args, **kwargs)
            dtype = numpy.dtype(dtype)
            sides = (int(shape),) if numpy.ndim(shape) == 0 else tuple(int(side) for side in shape)
            nbytes = dtype.itemsize
            for side in sides:
                nbytes *= side
            if nbytes < LAZY or min(sides) < 0 or dtype.hasobject or order not in ("C", "F"):
                return None
            value = numpy.asarray(value).astype(dtype)
            if value.ndim == 0:
                return self.held(numpy, value.tobytes(), dtype, sides, order)
            if value.ndim == len(sides) and len(value) == 1:
                value = value[0]
            if value.ndim >= len(sides) or order != "C":
                return None
            row = numpy.ascontiguousarray(numpy.broadcast_to(value, sides[1:]))
            return self.held(numpy, row.tobytes(), dtype, sides, order)

        def made(*args, **kwargs):
            array = None
            try:
                array = lazily(args, kwargs)
            except (TypeError, ValueError, AttributeError, OverflowError):
                pass
            if array is None:
                array = function(*args, **kwargs)
            return self.note(array, "numpy." + function.__name__) if getattr(array, "nbytes", 0) >= NOTED else array

        return made

    def held(self, numpy, unit, dtype, sides, order="C"):
        """An array full of a unit's bytes, held lazily; ``None`` where there is no way to."""
        array, whole = lazy.repeated(numpy, unit, dtype, sides, order)
        if not whole:
            self.state.note("an array that is full of one value was held as zeros in part, which takes no memory")
        if array is not None and lazy.way_at(span(array)[0]) == lazy.OVERLAPPING:
            self.state.note(
                "this process may not map as much memory as its arrays have (ulimit -v), and the run itself may not either: "
                "in the dry run the rows of the largest lay upon each other"
            )
        return array

    # ------------------------------------------------------------------ torch

    def watch_torch(self, torch):
        """The same for tensors on the CPU."""
        import numpy

        def sized(*size, **kwargs):
            size = kwargs.get("size", size)
            return size[0] if len(size) == 1 and not hasattr(size[0], "__index__") else size

        def like(tensor, *rest, **_):
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.is_contiguous():
                raise TypeError
            return tuple(tensor.shape)

        for name in ("zeros", "empty", "ones", "full"):
            function, takes = getattr(torch, name), int(name == "full")
            read = (lambda size, fill_value, **_: size) if takes else sized
            for whole, reader in ((name, read), (name + "_like", like)):
                call = self._torch(torch, numpy, getattr(torch, whole), function, reader, name)
                torchscript_knows(torch, replace(torch, whole, call))

    def _torch(self, torch, numpy, function, plain, read, name):
        """``plain`` makes the value itself, of one element; ``read`` takes the size from the arguments."""
        plain = getattr(plain, "__wrapped__", plain)
        carriers = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}

        def lazily(args, kwargs):
            source = args[0] if args and isinstance(args[0], torch.Tensor) else None
            device = kwargs.get("device", None if source is None else source.device)
            if set(kwargs) - {"dtype", "requires_grad", "size", "fill_value", "device"} or not on_cpu(torch, device):
                return None
            size = tuple(read(*args, **kwargs))
            if not all(isinstance(side, numbers.Integral) for side in size):  # the symbols of a tracer, say
                return None
            size = tuple(int(side) for side in size)
            value = [kwargs.get("fill_value", args[-1] if args else None)] if name == "full" else []
            dtype = kwargs.get("dtype") or (None if source is None else source.dtype)
            one = plain((1,), *value, dtype=dtype)
            nbytes = one.element_size()
            for side in size:
                nbytes *= side
            if nbytes < LAZY or min(size) < 0 or one.element_size() not in carriers:
                return None
            unit = bytes(one.element_size()) if name == "empty" else one.view(torch.uint8).numpy().tobytes()
            array = self.held(numpy, unit, numpy.dtype(carriers[one.element_size()]), size)
            if array is None:
                return None
            strides = [step // array.itemsize for step in array.strides]
            storage = torch.from_numpy(array).untyped_storage()
            tensor = torch.empty(0, dtype=one.dtype).set_(storage, 0, size, strides)
            return tensor.requires_grad_() if kwargs.get("requires_grad") else tensor

        def made(*args, **kwargs):
            if torch.jit.is_tracing():
                return function(*args, **kwargs)
            tensor = None
            try:
                tensor = lazily(args, kwargs)
            except (TypeError, ValueError, AttributeError, RuntimeError, OverflowError):
                pass
            if tensor is None:
                tensor = function(*args, **kwargs)
            try:
                is_plain = type(tensor) is torch.Tensor and tensor.device.type == "cpu"
                big = is_plain and tensor.numel() * tensor.element_size() >= NOTED
            except (AttributeError, RuntimeError):
                big = False
            return self.note(tensor, "torch." + function.__name__) if big else tensor

        return made


class Hook:
    """Stands for a function of a module: called in its place, and pickled as the module's own, for other processes.

    It equals the function, whose own name libraries have in tables: of what ``torch.set_default_device`` applies to, of
    what a type does for ``np.zeros_like`` (``__array_function__``), of what numba compiles.
    """

    def __init__(self, function, call, module):
        self.__wrapped__, self._call = function, call
        self.__name__ = self.__qualname__ = function.__name__
        self.__doc__, self.__module__ = function.__doc__, module

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __reduce__(self):
        return self.__name__

    def __eq__(self, other):
        return other is self or other is self.__wrapped__

    def __hash__(self):
        return hash(self.__wrapped__)


def replace(module, name, call):
    """Put a hook before a module's function, and return it."""
    hook = Hook(getattr(module, name), call, module.__name__)
    setattr(module, name, hook)
    return hook


def torchscript_knows(torch, hook):
    """Let TorchScript compile calls of a hook as those of the function, which it knows by identity."""
    try:
        table = torch.jit._builtins
        table._register_builtin(hook, table._find_builtin(hook.__wrapped__))
    except AttributeError:  # of a version that does otherwise
        pass


def dynamo_knows(dynamo):
    """Let ``torch.compile`` put calls of hooks into its graphs, and not read what they do."""
    for hook in list(vars(sys.modules["torch"]).values()):
        if type(hook) is Hook:
            dynamo.allow_in_graph(hook)


def on_cpu(torch, device):
    """Whether a ``device`` argument, or its absence, means the CPU, and real memory."""
    if getattr(torch._C, "_len_torch_dispatch_stack", int)():  # tensors without memory (FakeTensorMode), and recorders
        return False
    if device is not None:
        return str(device) in ("cpu", "cpu:0")
    try:
        return torch.get_default_device().type == "cpu"
    except AttributeError:  # before torch 2.3
        return True


def describe(array, made_by, where):
    """An array in plain data; ``whole`` says that its constructor writes all of it."""
    address, nbytes = span(array)
    return {
        "address": address,
        "nbytes": nbytes,
        "shape": [int(side) for side in array.shape],
        "dtype": str(array.dtype).replace("torch.", ""),
        "made_by": made_by,
        "where": where,
        "whole": made_by not in LEAVING,
    }


def span(array):
    """Address and bytes of the storage beneath an ndarray or a CPU tensor."""
    if hasattr(array, "__array_interface__") and not hasattr(array, "untyped_storage"):
        return array.__array_interface__["data"][0], array.nbytes
    if array.device.type != "cpu":
        return 0, array.numel() * array.element_size()
    storage = array.untyped_storage()
    address, nbytes = storage.data_ptr(), max(storage.nbytes(), 0)
    return address, lazy.mapped[address][2] if lazy.way_at(address) == lazy.OVERLAPPING else nbytes


def touch(address, nbytes):
    """Make every page of a range resident without changing a byte of it."""
    import ctypes

    import numpy

    view = numpy.frombuffer((ctypes.c_ubyte * nbytes).from_address(address), dtype=numpy.uint8)
    view[:: proc.PAGE] |= 0
    view[-1:] |= 0
