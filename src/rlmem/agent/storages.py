"""Where the values of an array or a tensor lie: an address, a length and a device. Views lead to what they view."""

import sys
from contextlib import nullcontext

from .children import attributes, is_a, picks

#: Deeper chains of views do not occur.
DEEPEST = 32


class Storages:
    """Looks beneath arrays and tensors, with the libraries the program has loaded (none is imported here)."""

    def __init__(self):
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        self.array = getattr(numpy, "ndarray", None)
        self.scalar = getattr(numpy, "generic", None)
        self.memmap = getattr(numpy, "memmap", None)
        self.tensor = getattr(torch, "Tensor", None)
        self.torch = torch if self.tensor is not None else None
        known = tuple(kind for kind in (self.array, self.tensor) if kind is not None)
        self.kinds = known

    def beneath(self, item):
        """``(kind, address, nbytes, device, owner)``; None when it has no memory of its own kind.

        ``owner`` is another object that really holds the memory (a mapped file, a bytes object), if there is one.
        """
        try:
            if self.tensor is not None and is_a(item, self.tensor):
                return self._tensor(item)
            return self._array(item)
        except Exception:  # a tensor of a kind without storage (meta, sparse, functional)
            return None

    def own_bytes(self, item):
        """Bytes that its own elements take, whoever has the memory; 0 where that cannot be told."""
        kind = self.array if self.array is not None and is_a(item, self.array) else self.tensor
        try:
            return kind.nbytes.__get__(item)
        except Exception:  # a tensor of a kind without storage
            return 0

    def _array(self, item):
        base = item
        for _ in range(DEEPEST):
            below = self.array.base.__get__(base)
            if type(below).__name__ == "DummyArray":  # numpy's own, between a strided view and what it views
                below = dict(attributes(below) or ()).get("base")
            if not is_a(below, self.array):
                break
            base = below
        owner = self.array.base.__get__(base)
        if owner is not None and self.tensor is not None and is_a(owner, self.tensor):
            return self._tensor(owner)
        address, nbytes = self._bounds(base)
        return ("array", address, nbytes, "ram", owner) if nbytes else None

    def _bounds(self, item):
        """From the first to the last byte of an array; one whose strides repeat rows is smaller than its count."""
        address = self.array.__array_interface__.__get__(item)["data"][0]
        shape, strides = self.array.shape.__get__(item), self.array.strides.__get__(item)
        if 0 in shape:
            return address, 0
        reach = [(side - 1) * stride for side, stride in zip(shape, strides)]  # noqa: B905  # Python 3.8
        low = sum(each for each in reach if each < 0)
        high = sum(each for each in reach if each > 0)
        return address + low, high - low + self.array.itemsize.__get__(item)

    def _tensor(self, item):
        if self.tensor.layout.__get__(item) is not self.torch.strided:
            return None
        storage = self.tensor.untyped_storage(item)
        device = storage.device.type
        place = "ram" if device == "cpu" else "vram" if device in ("cuda", "xpu", "hip") else device
        if place not in ("ram", "vram"):
            return None
        return "tensor", storage.data_ptr(), storage.nbytes(), place, None

    def operation_of(self, item):
        """The operation a tensor came from, which it keeps with all that its backward pass needs; None for others."""
        if self.tensor is None or not is_a(item, self.tensor):
            return None
        try:
            return self.tensor.grad_fn.__get__(item)
        except Exception:
            return None

    def gradient_of(self, item):
        """A leaf's gradient."""
        if self.tensor is None or not is_a(item, self.tensor):
            return None
        try:
            return self.tensor.grad.__get__(item) if self.tensor.is_leaf.__get__(item) else None
        except Exception:
            return None

    def shape(self, item):
        """The lengths of its sides."""
        kind = self.array if self.array is not None and is_a(item, self.array) else self.tensor
        try:
            return tuple(int(side) for side in kind.shape.__get__(item))
        except Exception:
            return ()

    def objects(self, item):
        """How many elements an array of Python objects has, and some of them; ``(0, [])`` for other arrays."""
        if self.array is None or not is_a(item, self.array) or not self.array.dtype.__get__(item).hasobject:
            return 0, []
        plain = self.array.view(item, self.array)
        count = self.array.size.__get__(plain)
        return count, [plain.flat[index] for index in picks(count)]

    def undisturbed(self):
        """A context in which tensors of the program's own classes are read without asking those classes."""
        quiet = getattr(getattr(self.torch, "_C", None), "DisableTorchFunctionSubclass", None)
        return quiet() if quiet is not None else nullcontext()

    def cuda(self):
        """What torch's allocator holds on each GPU that this process has used already."""
        cuda = getattr(self.torch, "cuda", None)
        try:
            if cuda is None or not cuda.is_initialized():
                return []
            return [
                {
                    "gpu": cuda.get_device_name(index),
                    "allocated": int(cuda.memory_allocated(index)),
                    "reserved": int(cuda.memory_reserved(index)),
                }
                for index in range(cuda.device_count())
                if cuda.memory_reserved(index)
            ]
        except Exception:
            return []
