"""Containers that got longer from look to look: who holds them, what an element adds, and what bounds them.

A bound is read from the source: what a length is compared with, what an index is taken modulo of, evaluated on the live
objects. Where the source shortens or empties the container, it is bounded by something that is not known.
"""

import ast
import gc
import os
import sys
import threading
from collections import deque
from itertools import islice

from . import children, roots
from .containers import Adding, size, slot
from .state import OWN

#: Elements at the end of a container that are looked at.
SAMPLE = 64
#: Files longer than this are not read for bounds.
LARGEST = 2 << 20
#: Bytes of a place in a bounded ``lru_cache``, beside the key and the result.
LINK = 190
SHORTENS = {"pop", "popleft", "popitem", "clear", "remove", "discard", "truncate"}


def describe(items, lengths):
    """``(row, container)`` of each, those that grew by most bytes first."""
    rows = []
    for item in items:
        seen = lengths[id(item)]
        row = {"kind": type(item).__name__, "length": seen[-1], "grown": seen[-1] - seen[0], "bytes_each": each(item)}
        row["id"] = id(item)
        if row["bytes_each"]:
            rows.append((row["bytes_each"] * row["grown"], row, item))
    rows.sort(key=lambda found: -found[0])
    out = []
    for _, row, item in rows[:24]:
        name, key, owner, file = holder(item, items)
        row.update({"name": name, "graph": has_graph(item), "plain": is_plain(item), "file": file})
        most = item.maxlen if isinstance(item, deque) else cache_size(owner)
        row.update({"capacity": most, "shortened": False} if most else bounds(key, owner, file, len(item)))
        row["sized"] = bool(most)
        if most and not isinstance(item, deque):
            row["bytes_each"] = each_cached(owner)
        out.append((row, item))
    return [(row, item) for row, item in out if row["name"] and not str(row["file"]).startswith(OWN)]


def newest(item):
    """The elements that were added last."""
    if isinstance(item, (list, deque)):
        return list(islice(reversed(item), SAMPLE))
    if isinstance(item, dict):
        return list(islice(reversed(list(dict.items(item))), SAMPLE)) if len(item) < 1 << 20 else []
    return list(islice(iter(item), SAMPLE)) if len(item) < 1 << 20 else []


def each(item):
    """Bytes that an element adds, from a few of the newest."""
    adding = Adding(slot(item))
    for part in newest(item):
        adding.one(part if isinstance(item, dict) else (part,))
    return adding.facts()["bytes_each"]


def each_cached(cache):
    """Bytes of one result of a bounded ``lru_cache``, whose links only the cache itself leads beyond."""
    count, seen = cache.cache_info().currsize, set()
    held = [part for part in gc.get_referents(cache) if type(part) is not dict]
    sample = held[: 64 * SAMPLE]
    return LINK + sum(size(part, seen) for part in sample) * len(held) // (len(sample) * max(1, count))


def cache_size(owner):
    """The ``maxsize`` of an ``lru_cache``."""
    return owner.cache_parameters()["maxsize"] if hasattr(owner, "cache_parameters") else None


def has_graph(item):
    """Whether its newest elements are tensors that keep the graph they were computed by."""
    return any(
        getattr(part, "grad_fn", None) is not None for part in newest(item)[:4] if hasattr(part, "untyped_storage")
    )


def is_plain(item):
    """Whether its newest elements are numbers: statistics, of which a run has a few bytes a step."""
    if has_graph(item):
        return False
    parts = item.values() if isinstance(item, dict) else item
    parts = newest(item) if not isinstance(item, dict) else list(islice(reversed(list(parts)), SAMPLE))
    return all(isinstance(part, (int, float, complex, type(None))) or getattr(part, "ndim", 1) == 0 for part in parts)


def holder(item, others, depth=0):
    """``(name, last word of it, the object it is an attribute of, file)`` of whoever holds a container."""
    for frame in frames():
        for name, value in roots.variables(frame).items():
            if value is item:
                return name, name, None, frame.f_code.co_filename
    for referrer in gc.get_referrers(item):
        found = _of_table(referrer, item) if type(referrer) is dict else _of_object(referrer, item)
        if found is not None:
            return found
    for referrer in gc.get_referrers(item) if depth < 2 else ():
        if isinstance(referrer, (list, dict, deque, tuple)) and referrer is not others and len(referrer) < 1 << 16:
            name, key, owner, file = holder(referrer, others, depth + 1)
            if name:
                return name + "[…]", key, owner, file
    return None, None, None, None


def _of_table(table, item):
    """The holder, where a dictionary is a module's or an object's."""
    for module in list(sys.modules.values()):
        if getattr(module, "__dict__", None) is table:
            name = _key(table, item)
            shown = name if module.__name__ == "__main__" else "%s.%s" % (module.__name__, name)
            return shown, name, None, getattr(module, "__file__", None)
    for owner in gc.get_referrers(table):
        if getattr(owner, "__dict__", None) is table:
            return _attribute(owner, _key(table, item))
    return None


def _of_object(referrer, item):
    """The holder, where it is a cache, a variable of a closure, or an object with attributes."""
    kind = type(referrer).__name__
    if kind == "_lru_cache_wrapper":
        made = getattr(referrer, "__wrapped__", None)
        name = getattr(made, "__qualname__", "a function") + "'s lru_cache"
        return name, None, referrer, getattr(getattr(made, "__code__", None), "co_filename", None)
    if kind == "cell":
        name, file = _closure(referrer)
        return (name, name, None, file) if name else None
    if not isinstance(referrer, (list, tuple, set, deque)) and type(referrer).__module__ != "builtins":
        for name, value in children.attributes(referrer) or ():
            if value is item:
                return _attribute(referrer, name)
    return None


def _attribute(owner, name):
    module = sys.modules.get(type(owner).__module__)
    return "%s.%s" % (type(owner).__name__, name), name, owner, getattr(module, "__file__", None)


def _closure(cell):
    for function in gc.get_referrers(cell):
        for made in gc.get_referrers(function) if type(function) is tuple else ():
            code = getattr(made, "__code__", None)
            if code is not None and getattr(made, "__closure__", None) is function:
                return code.co_freevars[function.index(cell)], code.co_filename
    return None, None


def _key(table, item):
    return next((str(key) for key, value in list(table.items()) if value is item), None)


def frames():
    """Frames of the program's own functions, the innermost first."""
    places = roots.library_places()
    frame = sys._current_frames().get(threading.main_thread().ident)
    found = []
    while frame is not None and len(found) < 100:
        name = frame.f_code.co_filename
        if not name.startswith((OWN, "<")) and not roots.is_library(name, places):
            found.append(frame)
        frame = frame.f_back
    return found


def bounds(name, owner, file, length):
    """``capacity`` that the source compares the length with, and whether it is ``shortened`` somewhere."""
    known = {"capacity": None, "shortened": False}
    if name is None:
        return known
    capacities = []
    for path in {file, *(frame.f_code.co_filename for frame in frames())}:
        tree = parsed(path)
        for node in ast.walk(tree) if tree is not None else ():
            for limit in _limits(node, name, tree):
                value = evaluate(limit, owner, path)
                if value is not None and value >= length:
                    capacities.append(value)
            known["shortened"] = known["shortened"] or _shortens(node, name)
        if tree is not None and not known["shortened"]:
            known["shortened"] = _begins_again(tree, name)
    if capacities:
        known["capacity"] = min(capacities)
    return known


def _modulos(node):
    """What indices are taken modulo of."""
    return (part.right for part in ast.walk(node) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod))


def _gives(node, name):
    """Whether a statement gives a variable a value."""
    return isinstance(node, ast.Assign) and any(isinstance(each, ast.Name) and each.id == name for each in node.targets)


def _limits(node, name, tree=None):
    """Expressions that bound a container of this name: beside its length in a comparison, or after ``%`` in its index."""
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        sides = (node.left, node.comparators[0])
        for one, other in (sides, sides[::-1]):
            if _is_length(one, name):
                yield other
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _named(node.value, name):
        yield from _modulos(node.slice)
        if isinstance(node.slice, ast.Name) and tree is not None:
            values = [each.value for each in ast.walk(tree) if _gives(each, node.slice.id)]
            ends = [list(_modulos(value)) for value in values]
            if all(ends):
                yield from (end for each in ends for end in each)


def _is_length(node, name):
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", None) == "len"
        and len(node.args) == 1
        and (_named(node.args[0], name) or (isinstance(node.args[0], ast.Name) and node.args[0].id == "self"))
    )


def _named(node, name):
    return getattr(node, "attr", None) == name or (isinstance(node, ast.Name) and node.id == name)


def _shortens(node, name):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SHORTENS:
        owner = node.func.value
        while isinstance(owner, ast.Subscript):
            owner = owner.value
        return _named(owner, name)
    if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "heappushpop":
        return bool(node.args) and _named(node.args[0], name)
    if isinstance(node, ast.Delete):
        return any(isinstance(target, ast.Subscript) and _named(target.value, name) for target in node.targets)
    if isinstance(node, ast.Assign):
        return any(
            isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice) and _named(target.value, name)
            for target in node.targets
        )
    return False


def _begins_again(tree, name):
    """Whether it is given a new value in a loop, or in a method other than the constructor."""
    for above in ast.walk(tree):
        method = isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef)) and above.name not in ("__init__", "main")
        if not method and not isinstance(above, (ast.For, ast.While)):
            continue
        for node in ast.walk(above):
            targets = node.targets if isinstance(node, ast.Assign) else ()
            flat = [part for one in targets for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
            for target in flat:
                local = isinstance(target, ast.Name) and target.id == name and not method
                if local or (isinstance(target, ast.Attribute) and target.attr == name):
                    return True
    return False


_TREES = {}


def parsed(path):
    """A source file as a tree; ``None`` for what is no source."""
    if path not in _TREES:
        _TREES[path] = None
        try:
            if path and path.endswith(".py") and os.path.getsize(path) < LARGEST:
                with open(path, "rb") as file:
                    _TREES[path] = ast.parse(file.read())
        except (OSError, SyntaxError, ValueError, RecursionError):
            pass
    return _TREES[path]


def evaluate(node, owner=None, path=None, scope=None):
    """The number an expression of names, attributes, constants and arithmetic stands for now; else ``None``."""
    found = _value(node, owner, path, scope)
    try:
        return None if found is None or isinstance(found, bool) else int(found)
    except (TypeError, ValueError, OverflowError):
        return None


def _value(node, owner, path, scope):
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.Name):
        return owner if node.id == "self" and scope is None else _variable(node.id, path, scope)
    if isinstance(node, ast.Attribute):
        held = _value(node.value, owner, path, scope)
        try:
            return None if held is None else getattr(held, node.attr, None)
        except Exception:  # a property of the program's
            return None
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("int", "float") and len(node.args) == 1:
        return _value(node.args[0], owner, path, scope)
    if isinstance(node, ast.BinOp):
        left, right = (_value(side, owner, path, scope) for side in (node.left, node.right))
        try:
            return _arithmetic(node.op, left, right)
        except (TypeError, ZeroDivisionError, OverflowError):
            return None
    return None


def _arithmetic(operation, left, right):
    kind = type(operation)
    if kind is ast.Add:
        return left + right
    if kind is ast.Sub:
        return left - right
    if kind is ast.Mult:
        return left * right
    if kind is ast.FloorDiv:
        return left // right
    if kind is ast.Div:
        return left / right
    return left**right if kind is ast.Pow and abs(right) < 64 else None


def _variable(name, path, scope):
    if scope is not None:
        return scope.get(name)
    for frame in frames():
        found = roots.variables(frame)
        if name in found:
            return found[name]
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == path and name in vars(module):
            return vars(module)[name]
    return None
