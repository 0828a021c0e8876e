"""Containers of Python objects with a stated capacity: a ``deque(maxlen=1_000_000)`` of transitions will fill."""

import gc
import sys

#: Shorter ones are statistics, not experience.
LEAST = 1000
#: Consecutive elements looked at, so that an observation shared by two transitions counts once.
SAMPLE = 64
#: An ndarray object without its values.
ARRAY = 112
#: What a tensor costs beside its values: the Python object, TensorImpl, StorageImpl and their blocks.
TENSOR = 600


class Containers:
    """Finds bounded deques when the dry run ends, and says what they will hold when full."""

    def __init__(self, state):
        self.state = state
        state.closers.append(self.close)

    def close(self):
        """One row for each deque that can still grow."""
        rows = []
        from collections import deque

        for item in gc.get_objects():
            if type(item) is deque and item.maxlen and item.maxlen >= LEAST and len(item) >= 2:
                each = per_element(item)
                rows.append({"capacity": item.maxlen, "length": len(item), "bytes_each": each, "kind": "deque"})
        self.state.facts["containers"] = rows


def per_element(items):
    """Bytes an element adds, by looking at some that follow each other."""
    count = min(SAMPLE, len(items))
    start = max(0, len(items) - count)
    seen, total = set(), 0
    for index in range(start, start + count):
        total += 8 + size(items[index], seen)
    return total // count


def size(item, seen, depth=0):
    """Bytes of an object and what only it holds; interned and immortal ones are free."""
    if item is None or isinstance(item, (bool, type)) or id(item) in seen or depth > 6:
        return 0
    if isinstance(item, int) and -6 < item < 257:
        return 0
    seen.add(id(item))
    if hasattr(item, "untyped_storage"):
        storage = item.untyped_storage()
        return TENSOR + (0 if storage.data_ptr() in seen else seen.add(storage.data_ptr()) or block(storage.nbytes()))
    if type(item).__module__ == "numpy" and hasattr(item, "strides"):
        return array(item, seen, depth)
    total = rounded(sys.getsizeof(item))
    if isinstance(item, dict):
        total += sum(size(key, seen, depth + 1) + size(value, seen, depth + 1) for key, value in item.items())
    elif isinstance(item, (tuple, list)):
        total += sum(size(part, seen, depth + 1) for part in item)
    elif hasattr(item, "__dict__"):
        total += size(vars(item), seen, depth + 1)
    return total


def array(item, seen, depth):
    """An ndarray: the object, a block for its shape and strides, and a block for its values unless it is a view."""
    if not hasattr(item, "__setitem__"):  # a scalar
        return rounded(sys.getsizeof(item))
    total = ARRAY + (block(16 * item.ndim) if item.ndim else 0)
    return total + (block(item.nbytes) if item.base is None else size(item.base, seen, depth + 1))


def rounded(nbytes):
    """Python's own allocator hands out multiples of 16 bytes."""
    return (nbytes + 15) // 16 * 16


def block(nbytes):
    """A block of the C library: a header of 8 bytes, multiples of 16, at least 32."""
    return max(32, (nbytes + 8 + 15) // 16 * 16)
