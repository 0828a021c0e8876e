"""Containers of Python objects with a stated capacity: a ``deque(maxlen=1_000_000)`` of transitions will fill."""

import gc
import sys
import time
import types
from itertools import islice

from . import children
from .arrays import NOTED

#: Shorter ones are statistics, not experience.
LEAST = 1000
#: Elements looked at, the newest, and seconds that may take: many, so that a pool of goals or frames is seen as one.
LOOKED, SECONDS = 50_000, 1.5
#: An ndarray object without its values.
ARRAY = 112
#: What a tensor costs beside its values: the Python object, TensorImpl, StorageImpl and their blocks.
TENSOR = 600
#: Attributes lie in the object itself, and only some of them in a dictionary, from this version on.
INLINE = sys.version_info >= (3, 11)
#: Objects from this size on are looked at one by one; how far an element is looked into.
LARGE, DEEPEST = 1024, 6
_NOTHING = (bool, type, type(None), types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType)


class Containers:
    """Finds bounded deques when the dry run ends, and says what they and other bounded containers hold when full."""

    def __init__(self, state):
        self.state = state
        self.bounded = []
        state.closers.append(self.close)

    def close(self):
        """One row for each deque that can still grow."""
        rows = []
        from collections import deque

        for item in gc.get_objects():
            if type(item) is deque and item.maxlen and item.maxlen >= LEAST and len(item) >= 2:
                # A run that is over adds no more.
                reached = len(item) if self.state.facts.get("ended") else item.maxlen
                rows.append({"capacity": reached, "length": len(item), "kind": "deque", "id": id(item)})
                self.bounded.append((rows[-1], item))
        self.state.facts["containers"] = rows

    def size(self):
        """Say in each row what an element adds; what two containers share is added by the one that keeps it longer."""
        self.bounded.sort(key=lambda found: -found[0]["capacity"])
        seen, references = set(), {}
        looks = [(row, Adding(slot(item), seen, references).look(item)) for row, item in self.bounded]
        for row, look in looks:
            row.update(look.facts())
        self.bounded.clear()


def slot(item):
    """Bytes of a place in a container."""
    return 100 if isinstance(item, dict) else 50 if isinstance(item, (set, frozenset)) else 8


class Adding:
    """What each new element adds to a container that has others already.

    What elements share is there with the first of them: a configuration that all refer to, frames that stacks have in
    common. So the first half of the elements looked at is passed over, and the mean is of the second. What somebody
    else refers to as well, such as a pool of goals, is there without the container.
    """

    def __init__(self, slot, seen=None, references=None):
        self.slot = slot
        self.seen = set() if seen is None else seen
        #: How often each object was met, in all containers.
        self.references = {} if references is None else references
        self.added = []
        #: ``(object, its bytes, the element that added it)`` of those that are worth it.
        self.large = []

    def look(self, items, seconds=SECONDS):
        """Look at the newest elements of a container, in order."""
        until = time.monotonic() + seconds
        is_table = issubclass(type(items), dict)
        for item in list(islice(children.copied(items) if is_table else items, max(0, len(items) - LOOKED), None)):
            self.one(item if is_table else (item,))
            if not len(self.added) & 63 and time.monotonic() > until:
                break
        return self

    def one(self, parts):
        """Look at one element: a value, or a key and its value."""
        self.added.append(self.slot)
        for part in parts:
            self.count(part, 0)

    def count(self, item, depth):
        """Add the bytes of an object, and of what it refers to, to the newest element."""
        kind = type(item)
        if issubclass(kind, _NOTHING) or depth > DEEPEST or (issubclass(kind, int) and -6 < item < 257):
            return
        self.references[id(item)] = self.references.get(id(item), 0) + 1
        if id(item) in self.seen:
            return
        self.seen.add(id(item))
        nbytes, parts = own(item, self.seen)
        self.added[-1] += nbytes
        if nbytes >= LARGE:
            self.large.append((item, nbytes, len(self.added) - 1))
        for part in parts:
            self.count(part, depth + 1)

    def facts(self):
        """The mean of the second half, with a range, and the addresses of big arrays that elements have for themselves."""
        begin = len(self.added) // 2
        half, others = self.added[begin:], 0
        arrays = []
        for item, nbytes, index in self.large:
            # Three references are of this loop, the list and the call.
            outside = sys.getrefcount(item) - 3 > self.references[id(item)]
            if outside and index >= begin:
                others += nbytes
            if not outside and self.references[id(item)] == 1 and nbytes >= NOTED:
                arrays.append(address(item))
        self.large.clear()
        middle, each = len(half) // 2, mean(half)
        parts = (each, mean(half[:middle] or half), mean(half[middle:]))
        others = others // max(1, len(half))
        return {
            "bytes_each": each - others,
            "least_each": max(self.slot, min(parts) - others),
            "most_each": max(parts),
            "arrays": arrays,
        }


def mean(sizes):
    """Rounded; 0 of none."""
    return sum(sizes) // len(sizes) if sizes else 0


def own(item, seen):
    """``(bytes, parts)`` of an object: its own, and what it refers to."""
    kind = type(item)
    if hasattr(kind, "untyped_storage"):
        storage = item.untyped_storage()
        if storage.data_ptr() in seen:
            return TENSOR, ()
        seen.add(storage.data_ptr())
        return TENSOR + block(storage.nbytes()), ()
    nbytes = rounded(sys.getsizeof(item))
    if kind.__module__ == "numpy" and hasattr(kind, "strides"):
        if not hasattr(kind, "__setitem__"):  # a scalar
            return nbytes, ()
        nbytes = ARRAY + (block(16 * item.ndim) if item.ndim else 0)
        return (nbytes + block(item.nbytes), ()) if item.base is None else (nbytes, (item.base,))
    if issubclass(kind, dict):
        return nbytes, [part for pair in children.copied(item) for part in pair]
    if issubclass(kind, children.CONTAINERS):
        return nbytes, list(item)
    found = children.attributes(item) or ()
    if found and kind.__dictoffset__:
        nbytes += rounded(8 * len(found) + 24) if INLINE else rounded(sys.getsizeof(vars(item)))
    return nbytes, [value for _, value in found]


def size(item, seen):
    """Bytes of an object and what only it holds; interned and immortal ones are free."""
    adding = Adding(0, seen)
    adding.one((item,))
    return adding.added[0]


def address(item):
    """Where the values of an array or a tensor lie."""
    if hasattr(type(item), "untyped_storage"):
        return item.untyped_storage().data_ptr()
    return item.__array_interface__["data"][0] if hasattr(type(item), "__array_interface__") else 0


def rounded(nbytes):
    """Python's own allocator hands out multiples of 16 bytes."""
    return (nbytes + 15) // 16 * 16


def block(nbytes):
    """A block of the C library: a header of 8 bytes, multiples of 16, at least 32."""
    return max(32, (nbytes + 8 + 15) // 16 * 16)
