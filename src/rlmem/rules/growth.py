"""Attributes of an object that grow with every call of a method, and whether anything ever makes them smaller again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from rlmem.rules.syntax import SHRINKING, conditions, leaf, method_calls, methods, reachable, receiver, self_attribute
from rlmem.scripts import Script
from rlmem.scripts.walk import Binding

GROWS = {"append", "appendleft", "extend", "extendleft", "insert", "add"}
#: Functions that return their first argument with more at its end.
_LONGER = {"append", "concatenate", "concat", "vstack", "hstack", "cat", "r_"}
_EMPTY = {"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter", "array", "empty", "DataFrame"}
#: Functions, and packages of them, that leave the list they are given as it is.
_READING = {
    "len", "sum", "max", "min", "print", "list", "tuple", "set", "dict", "sorted", "reversed", "enumerate", "zip", "map",
    "filter", "any", "all", "str", "repr", "bool", "isinstance", "iter", "range", "deepcopy", "copy", "plot", "dump", "dumps",
    "save", "savez", "DataFrame", "Series", "array", "asarray", "mean", "std", "log", "record", "format", "join", "index",
}  # fmt: skip
_READERS = {
    "numpy", "torch", "pandas", "matplotlib", "pickle", "json", "math", "statistics", "itertools", "csv", "wandb", "scipy",
    "seaborn", "logging", "random", "joblib",
}  # fmt: skip
_BEGINS = {"__init__", "__new__", "__post_init__", "_init_callback"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """One place where an attribute gets longer, and what is added there."""

    node: ast.expr | ast.stmt
    attribute: str
    added: ast.expr
    method: ast.FunctionDef | ast.AsyncFunctionDef


def endless(script: Script, cls: ast.ClassDef, *starts: str) -> Iterator[Growth]:
    """Growth in these methods, and those they call, of attributes that this class makes and nobody shortens."""
    begins: dict[str, list[ast.expr]] | None = None
    for method in reachable(cls, *starts):
        for growth in _growths(method):
            if begins is None:
                begins = _beginnings(cls)
            if not _starts_empty(script, begins.get(growth.attribute, [])):
                continue
            if not _guarded(script, growth) and not _released(script, cls, growth):
                yield growth


def _growths(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Growth]:
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and leaf(node) in GROWS and node.args:
            owner = receiver(node)
            name = self_attribute(owner) if owner is not None else None
            if name:
                yield Growth(node=node, attribute=name, added=node.args[-1], method=method)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and isinstance(node.value, ast.List):
            name = self_attribute(node.target)
            if name:
                yield Growth(node=node, attribute=name, added=node.value, method=method)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            yield from _assigned(node, method)


def _assigned(node: ast.Assign, method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Growth]:
    target = node.targets[0]
    name = self_attribute(target)
    if name is None:
        return
    longer = isinstance(target, ast.Attribute) and _longer_of(node.value, name)
    if longer or (isinstance(target, ast.Subscript) and _new_key(target, name, method)):
        yield Growth(node=node, attribute=name, added=node.value, method=method)


def _longer_of(value: ast.expr, name: str) -> bool:
    """``np.append(self.x, …)``, ``pd.concat([self.x, …])``, ``self.x + […]``."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        return self_attribute(value.left) == name and isinstance(value.right, ast.List)
    if not (isinstance(value, ast.Call) and leaf(value) in _LONGER and value.args):
        return False
    first = value.args[0]
    parts = first.elts if isinstance(first, (ast.List, ast.Tuple)) else [first]
    return any(isinstance(part, ast.Attribute) and self_attribute(part) == name for part in parts)


def _new_key(target: ast.Subscript, name: str, method: ast.AST) -> bool:
    """Whether an item is stored under a key that is another one each time: a count that goes up, or the length."""
    key = target.slice
    if isinstance(key, ast.Call) and leaf(key) in {"len", "uuid4", "time", "time_ns"}:
        return leaf(key) != "len" or any(self_attribute(part) == name for part in key.args)
    counted = self_attribute(key) if isinstance(key, ast.Attribute) else None
    return counted is not None and any(
        isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and self_attribute(node.target) == counted
        for node in ast.walk(method)
    )


def _beginnings(cls: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """What the class gives its attributes when an object is made, in ``__init__`` or in its body."""
    found: dict[str, list[ast.expr]] = {}
    written = methods(cls)
    nodes = [node for name in _BEGINS & set(written) for node in ast.walk(written[name])]
    for node in (*nodes, *cls.body):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                plain = isinstance(target, ast.Name) and node in cls.body
                name = self_attribute(target) if isinstance(target, ast.Attribute) else target.id if plain else None  # type: ignore[attr-defined]
                if name:
                    found.setdefault(name, []).append(node.value)
    return found


def _starts_empty(script: Script, values: list[ast.expr]) -> bool:
    return bool(values) and all(_is_empty(script, value) for value in values)


def _is_empty(script: Script, value: ast.expr) -> bool:
    """A list, a table or a queue without a bound; of anything else it is not known what growing does."""
    if isinstance(value, (ast.List, ast.Dict, ast.Set)):
        return True
    if not isinstance(value, ast.Call) or leaf(value) not in _EMPTY:
        return False
    name = script.called(value)
    if name is None or (name.root not in {"", "collections", "numpy", "pandas"}):
        return False
    bound = script.argument(value, "maxlen", 1) if name.leaf == "deque" else None
    return bound is None or (isinstance(bound, ast.Constant) and bound.value is None)


def _guarded(script: Script, growth: Growth) -> bool:
    """``if len(self.x) < limit:`` around it."""
    return any(
        isinstance(node, ast.Call)
        and leaf(node) == "len"
        and any(self_attribute(part) == growth.attribute for part in node.args)
        for condition in conditions(script, growth.node, growth.method)
        for node in ast.walk(condition.test)
    )


def _released(script: Script, cls: ast.ClassDef, growth: Growth) -> bool:
    """Whether anything in the file makes the attribute shorter, gives it another value, or may do so by its name."""
    name = growth.attribute
    family = _family(script, cls)
    begin = [method for each in family for word, method in methods(each).items() if word in _BEGINS]
    for target, binding in script.walked.attribute_values.get(name, ()):
        if script.function_of(target) in begin:
            continue
        if binding.kind == "augment" or (binding.value is not None and _longer_of(binding.value, name)):
            continue
        if script.class_of(target) in family or self_attribute(target) is None:
            return True
    if any(_begins_again(script, target, binding.value, name) for target, binding in _items(script)):
        return True
    return _shortened(script, name) or any(map(_any_attribute, family)) or _handed_on(script, family, name)


def _items(script: Script) -> Iterator[tuple[ast.Subscript, Binding]]:
    return (pair for pairs in script.walked.item_values.values() for pair in pairs)


def _begins_again(script: Script, target: ast.Subscript, value: ast.expr | None, name: str) -> bool:
    """``self.rewards[agent] = []`` outside of the constructor empties what lies in the attribute."""
    fresh = isinstance(value, (ast.List, ast.Dict, ast.Set, ast.Call, ast.ListComp))
    function = script.function_of(target)
    within = isinstance(target.value, ast.Attribute) and target.value.attr == name
    return fresh and within and getattr(function, "name", "") not in _BEGINS


def _family(script: Script, cls: ast.ClassDef) -> list[ast.ClassDef]:
    """A class and its bases in the same file."""
    names = script.class_bases(cls)
    return [cls, *(each for each in script.classes if each is not cls and each.name in names)]


def _handed_on(script: Script, family: list[ast.ClassDef], name: str) -> bool:
    """Whether the attribute itself is given to a function that may take from it."""
    for attribute in script.walked.attributes.get(name, ()):
        call = script.parent(attribute)
        if isinstance(call, ast.keyword):
            call = script.parent(call)
        if not isinstance(call, ast.Call) or call.func is attribute or script.class_of(attribute) not in family:
            continue
        if self_attribute(attribute) == name and not _only_reads(script, call):
            return True
    return False


def _only_reads(script: Script, call: ast.Call) -> bool:
    """Whether a function is known to leave what it is given as it is."""
    if _is_reader(script, call):
        return True
    inside = script.function_called(call)
    return inside is not None and not any(
        isinstance(node, ast.Delete)
        or (isinstance(node, ast.Call) and (leaf(node) in SHRINKING or (node.args and not _is_reader(script, node))))
        for node in ast.walk(inside)
    )


def _is_reader(script: Script, call: ast.Call) -> bool:
    called = script.called(call)
    return leaf(call) in GROWS | _READING or (called is not None and called.root in _READERS)


def _shortened(script: Script, name: str) -> bool:
    for call in method_calls(script, *SHRINKING):
        owner = receiver(call)
        while isinstance(owner, ast.Subscript):
            owner = owner.value
        if isinstance(owner, ast.Attribute) and owner.attr == name:
            return True
    for attribute in script.walked.attributes.get(name, ()):
        above = script.parent(attribute)
        stored = isinstance(above, ast.Subscript) and isinstance(above.ctx, (ast.Store, ast.Del))
        if stored and (isinstance(above.ctx, ast.Del) or isinstance(above.slice, ast.Slice)):  # type: ignore[union-attr]
            return True
    return False


def _any_attribute(cls: ast.ClassDef) -> bool:
    """Whether the class sets attributes by names that are not written down, or begins again from nothing."""
    for name, method in methods(cls).items():
        for node in ast.walk(method):
            if isinstance(node, ast.Call):
                word = leaf(node)
                if word in {"setattr", "delattr"} or (word == "__init__" and name not in _BEGINS):
                    return True
                if word == "vars" or (word == "getattr" and _is_unwritten(node)):
                    return True
            elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
                return True
    return False


def _is_unwritten(call: ast.Call) -> bool:
    """Whether ``getattr(self, name)`` asks for an attribute whose name stands elsewhere."""
    owner, name = (*call.args, None, None)[:2]
    return isinstance(owner, ast.Name) and owner.id == "self" and not isinstance(name, ast.Constant)
