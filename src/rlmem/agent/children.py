"""What an object refers to, with the words a program would use for it: ``.name``, ``['key']``, ``[3]``.

Nothing of the program's own is called: no property, no ``__getattr__``, no ``__iter__``, no ``__len__`` of a class
that is not Python's. Containers are copied in one step or read by position, as other threads go on changing them.
"""

import collections
import functools
import types
from itertools import islice

#: Containers longer than this are looked at in samples: SAMPLE_RUNS stretches of SAMPLE_LENGTH neighbours.
LONG = 1024
SAMPLE_RUNS, SAMPLE_LENGTH = 4, 16
#: Of a table, entries further back than this are not looked at.
FURTHEST = 200_000
#: Elements of a longer list than this share one name, ``losses[…]``.
INDEXED = 16
#: Values that hold nothing worth a name.
PLAIN = (int, float, complex, bool, type(None), str, bytes, type(Ellipsis), range, slice, types.CodeType)
CONTAINERS = (list, tuple, dict, set, frozenset, collections.deque)
#: Types that know their own size in bytes.
SIZED = (*CONTAINERS, str, bytes, bytearray, int, float)
#: Things of the interpreter and of libraries that lead everywhere and hold nothing of the program's.
_SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType, types.FrameType, property, staticmethod, classmethod)
_SKIPPED_MODULES = frozenset(
    "_ctypes _frozen_importlib _frozen_importlib_external _io _ssl _thread _weakref abc ast ctypes enum importlib inspect "
    "logging mpmath re ssl sympy threading typing weakref".split()
)
#: Parts of torch modules that a program names without their table: ``actor.mu.weight``.
_TRANSPARENT = ("_parameters", "_buffers", "_modules")
_CELL = type((lambda x: lambda: x)(0).__closure__[0])
_MEMBERS = (types.MemberDescriptorType,)


def is_a(item, kinds):
    """``isinstance`` by the type alone: what an object says of its own class may be a property, and is not asked."""
    return issubclass(type(item), kinds)


def attributes(item):
    """An object's own variables as a list of pairs; None when it has none."""
    try:
        held = object.__getattribute__(item, "__dict__")
    except AttributeError:
        held = None
    pairs = None
    if type(held) is dict:  # an object with thousands of variables is a table
        pairs = copied(held) if len(held) <= LONG else _some(held, LONG)
    for cls in type(item).__mro__:
        slots = cls.__dict__.get("__slots__") if cls.__module__ != "builtins" else None
        if not slots:
            continue
        pairs = [] if pairs is None else pairs
        for slot in (slots,) if type(slots) is str else tuple(slots):
            private = slot.startswith("__") and not slot.endswith("__")
            name = "_%s%s" % (cls.__name__.lstrip("_"), slot) if private else slot
            member = cls.__dict__.get(name)
            if type(member) in _MEMBERS:
                try:
                    pairs.append((name, member.__get__(item)))
                except AttributeError:
                    pass
    return pairs


def copied(table):
    """A dictionary's items at one moment."""
    try:
        return list(dict.items(table))
    except RuntimeError:
        return []


def length(item):
    """The number of elements, by the container's own type and not by what a subclass says."""
    for kind in CONTAINERS:
        if is_a(item, kind):
            return kind.__len__(item)
    return 0


def sampled(count, room):
    """How many elements are looked at: all of a container that has no more than there is room for."""
    return count if count <= room else min(count, room, SAMPLE_RUNS * SAMPLE_LENGTH)


def picks(count, room=LONG):
    """Positions looked at in a container of so many elements: all of a short one, some neighbours of a long one."""
    wanted = sampled(count, room)
    if wanted == count:
        return range(count)
    runs = SAMPLE_RUNS if wanted >= 2 * SAMPLE_RUNS else 1
    size = wanted // runs
    step = (count - size) // (runs - 1) if runs > 1 else 0
    return [start * step + index for start in range(runs) for index in range(size)]


def elements(item, count, room=LONG):
    """``(word, value)`` of a container's elements, or of a sample of them."""
    if is_a(item, dict):
        return _table(item, count, room)
    if is_a(item, (set, frozenset)):
        return [("{…}", value) for value in _first(item, sampled(count, room))]
    names = _field_names(item)
    if is_a(item, collections.deque):
        read = collections.deque.__getitem__
    else:
        read = list.__getitem__ if is_a(item, list) else tuple.__getitem__
    found = []
    for index in picks(count, room):
        try:
            value = read(item, index)
        except IndexError:  # it became shorter
            break
        if names and index < len(names):
            found.append(("." + names[index], value))
        else:
            found.append(("[%d]" % index if count <= INDEXED else "[…]", value))
    return found


def _field_names(item):
    """The fields of a named tuple, when its class says so in plain data."""
    names = type(item).__dict__.get("_fields") if is_a(item, tuple) else None
    return names if is_a(names, tuple) and all(is_a(name, str) for name in names) else ()


def _first(item, wanted):
    kind = next(cls for cls in (set, frozenset) if is_a(item, cls))
    for _ in range(3):
        try:
            return list(islice(kind.__iter__(item), wanted))
        except RuntimeError:  # changed while it was read
            continue
    return []


def _table(item, count, room):
    """Keys that are short texts are names; others share one, so that an optimizer's state is one row per kind."""
    wanted = sampled(count, room)
    pairs = copied(item) if wanted == count else _some(item, wanted)
    out = []
    few = count <= INDEXED
    for key, value in pairs:
        if type(key) is str and len(key) <= 40 and count <= LONG:
            word = "['%s']" % printable(key)
        elif type(key) is int and few:
            word = "[%d]" % key
        else:
            word = "[…]"
        out.append((word, value))
        if type(key) is tuple or not is_a(key, PLAIN):
            out.append((".keys", key))
    return out


def _some(item, wanted):
    for _ in range(3):
        try:
            # Spread over the first part, which takes a few ms: to step over millions of entries would take too long.
            reach = min(dict.__len__(item), FURTHEST)
            return list(islice(dict.items(item).__iter__(), 0, reach, max(1, reach // max(wanted, 1))))[:wanted]
        except RuntimeError:
            continue
    return []


def printable(text):
    """A name without what would move a terminal's cursor."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "?" for letter in text)


def referents(item):
    """``(word, value)`` of what an object that is no container refers to."""
    kind = type(item)
    if kind is types.FunctionType:
        return _function(item)
    if kind is types.MethodType:
        return [("", item.__self__)]
    if kind is functools.partial:
        return [(".func", item.func), (".args", item.args), (".keywords", item.keywords)]
    if kind is _CELL:
        return _cell(item)
    pairs = attributes(item)
    if pairs is not None:
        found = _of_pandas(item) if kind.__module__.startswith("pandas.") else []
        for name, value in pairs:
            if name in _TRANSPARENT and is_a(value, dict):
                found += [("." + printable(str(key)), part) for key, part in copied(value)]
            elif type(name) is str:
                found.append(("." + printable(name), value))
        return found
    return []


def _of_pandas(item):
    """What pandas keeps in C: the blocks of a frame and the values of a block."""
    found = []
    for cls in type(item).__mro__:
        if cls.__module__ == "pandas._libs.internals":
            for name in ("blocks", "values"):
                member = cls.__dict__.get(name)
                if type(member) is types.GetSetDescriptorType:
                    found.append(("", member.__get__(item)))
    return found


def _function(item):
    found = []
    names = item.__code__.co_freevars
    for name, cell in zip(names, item.__closure__ or (), strict=False):
        found += [(".%s" % name, value) for _, value in _cell(cell)]
    for value in item.__defaults__ or ():
        found.append((".defaults", value))
    if item.__dict__:
        found += [("." + name, value) for name, value in copied(item.__dict__)]
    wrapped = item.__kwdefaults__
    if wrapped:
        found += [(".%s" % name, value) for name, value in copied(wrapped)]
    return found


def _cell(cell):
    try:
        return [("", cell.cell_contents)]
    except ValueError:
        return []


def size(item):
    """Bytes of an object itself, without what it refers to: by Python's own types, or the least of its type."""
    kind = type(item)
    for base in SIZED:
        if issubclass(kind, base):
            return (base.__sizeof__(item) + 16 + 15) & -16 if base in CONTAINERS else (base.__sizeof__(item) + 15) & -16
    return (max(kind.__basicsize__, 16) + 16 + 15) & -16


#: What a type is to the walk.
SKIP, PLAIN_VALUE, STORAGE, CONTAINER, OBJECT = range(5)


class Traits:
    """What is to be known of a type, looked up once."""

    __slots__ = ("how", "optimizer", "vector", "wrapper")

    def __init__(self, kind, storages):
        names = [(cls.__name__, cls.__module__) for cls in kind.__mro__]
        self.wrapper = any(name == "Wrapper" and module.split(".")[0] in ("gymnasium", "gym") for name, module in names)
        self.vector = any(name == "VecEnvWrapper" for name, _ in names)
        self.optimizer = any(name == "Optimizer" and module.startswith("torch.optim") for name, module in names)
        if issubclass(kind, PLAIN) or (storages.scalar is not None and issubclass(kind, storages.scalar)):
            self.how = PLAIN_VALUE
        elif storages.kinds and issubclass(kind, storages.kinds):
            self.how = STORAGE
        elif issubclass(kind, CONTAINERS):
            self.how = CONTAINER
        elif issubclass(kind, _SKIPPED) or kind.__module__.split(".")[0] in _SKIPPED_MODULES:
            self.how = SKIP
        else:
            self.how = OBJECT


def is_flat(item, count):
    """Whether a container of a library's holds only texts, numbers, functions and classes, as far as a look shows."""
    sample = elements(item, count)[:24] if count <= LONG else elements(item, count)[::8]
    for _, value in sample:
        kind = type(value)
        if (
            issubclass(kind, (*PLAIN, *_SKIPPED, types.FunctionType))
            or kind.__module__.split(".")[0] in _SKIPPED_MODULES
        ):
            continue
        if kind in (tuple, list, set, frozenset) and all(
            issubclass(type(part), (*PLAIN, *_SKIPPED, types.FunctionType)) for part in list(value)[:8]
        ):
            continue
        if kind.__module__.startswith(("torch._ops", "torch._C", "numpy.ufunc")) or kind.__name__ == "ufunc":
            continue
        return False
    return True
