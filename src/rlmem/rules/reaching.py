"""Whether a value that a method of an environment computes is part of the observation its class returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.rules.memories import dotted
from rlmem.rules.syntax import leaf, methods
from rlmem.scripts import Script

#: Methods that return an observation, alone or first in a tuple.
OBSERVING = {
    "observation", "step", "reset", "_get_obs", "_get_observation", "get_obs", "get_observation", "_obs", "_observe",
    "observe", "_observation", "_step", "_reset",
}  # fmt: skip
#: Packages whose functions give back what they were given, in another form.
_ARRAYS = {"numpy", "torch", "cv2", "skimage", "PIL", "jax", "tensorflow", "collections"}
_CONTAINERS = {"list", "tuple", "dict", "deque", "LazyFrames"}
#: What is left of an image after these is not one.
_REDUCES = {
    "mean", "sum", "max", "min", "std", "var", "any", "all", "item", "argmax", "argmin", "predict", "norm", "tolist",
    "encode",
}  # fmt: skip
_PUTS = {"append", "appendleft", "extend", "insert", "fill"}
_ROUNDS = 6


def reaches_observation(script: Script, cls: ast.ClassDef, start: ast.AST) -> bool:
    """Whether an expression, or what an assignment like ``obs /= 255`` changes, gets into a returned observation."""
    return _Flow(script, cls, start).arrives()


class _Flow:
    """The names that hold the value: of attributes for the class, of variables for each method."""

    def __init__(self, script: Script, cls: ast.ClassDef, start: ast.AST) -> None:
        self.script, self.start = script, start
        self.methods = methods(cls)
        self.held: set[tuple[str, str]] = set()
        self.returning: set[str] = set()

    def arrives(self) -> bool:
        """Goes over the methods until nothing more is found."""
        for _ in range(_ROUNDS):
            before = len(self.held), len(self.returning)
            for name, method in self.methods.items():
                for node in ast.walk(method):
                    self._statement(name, node)
            if self.returning & OBSERVING:
                return True
            if before == (len(self.held), len(self.returning)):
                break
        return False

    def _statement(self, where: str, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self._assign(where, target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(where, target, value)
            case ast.AugAssign(target=target) if node is self.start:
                self._hold(where, target)
            case ast.AugAssign(target=target, value=value) if self._holds(where, value):
                self._hold(where, target)
            case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[_, *_]):
                if name in _PUTS and self._holds(where, node.args[-1]):
                    self._hold(where, owner)
                self._pass(where, node)
            case ast.Return(value=ast.Tuple(elts=[first, *_])) if where.strip("_") in {"step", "reset"}:
                if self._holds(where, first):
                    self.returning.add(where)
            case ast.Return(value=ast.expr() as value) if self._holds(where, value):
                self.returning.add(where)

    def _assign(self, where: str, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(where, one, other)
        elif self._holds(where, value):
            for one in target.elts[:1] if isinstance(target, ast.Tuple) else [target]:
                self._hold(where, one)

    def _hold(self, where: str, target: ast.expr) -> None:
        while isinstance(target, (ast.Subscript, ast.Starred)):
            target = target.value
        if text := dotted(target):
            self.held.add(("" if text.startswith("self.") else where, text))

    def _pass(self, where: str, call: ast.Call) -> None:
        """``self.method(value)`` gives a parameter the value."""
        method = self.methods.get(leaf(call))
        if method is None or not dotted(call.func).startswith("self."):
            return
        names = [argument.arg for argument in (*method.args.posonlyargs, *method.args.args)][1:]
        for name, given in zip(names, call.args, strict=False):
            if self._holds(where, given):
                self.held.add((method.name, name))

    def _holds(self, where: str, expr: ast.expr) -> bool:
        if expr is self.start:
            return True
        match expr:
            case ast.Name() | ast.Attribute():
                text = dotted(expr)
                if ("" if text.startswith("self.") else where, text) in self.held:
                    return True
                return isinstance(expr, ast.Attribute) and expr.attr == "T" and self._holds(where, expr.value)
            case ast.Call():
                return self._call_holds(where, expr)
        return any(self._holds(where, part) for part in _parts(expr))

    def _call_holds(self, where: str, call: ast.Call) -> bool:
        name = leaf(call)
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        if name in _REDUCES or name == "uint8" or any(_is_byte(argument) for argument in given):
            return False
        if isinstance(call.func, ast.Attribute):
            if dotted(call.func) == f"self.{name}" and name in self.methods:
                return name in self.returning
            if self._holds(where, call.func.value):
                return True
        called = self.script.called(call)
        same = called is not None and (called.root in _ARRAYS or called.leaf in _CONTAINERS)
        return same and any(self._holds(where, argument) for argument in given)


def _parts(expr: ast.expr) -> Iterator[ast.expr]:
    match expr:
        case ast.Subscript(value=value) | ast.Starred(value=value) | ast.NamedExpr(value=value):
            yield value
        case ast.BinOp(left=left, right=right):
            yield from (left, right)
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.IfExp(body=body, orelse=orelse):
            yield from (body, orelse)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            yield from elements
        case ast.Dict(values=values):
            yield from values
        case ast.ListComp(elt=element):
            yield element


def _is_byte(expr: ast.expr) -> bool:
    return (isinstance(expr, ast.Attribute) and expr.attr == "uint8") or (
        isinstance(expr, ast.Constant) and expr.value == "uint8"
    )
