"""Where the value of an expression goes: through names, lists, wrappers and functions of the file, to its last uses."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlmem.scripts.script import Script

#: Methods that put a value into a container, which then stands for it.
FILLING = frozenset({"append", "extend", "insert", "add", "appendleft"})
#: Calls that look at a value and keep nothing of it.
_LOOKS = frozenset(
    {"len", "print", "bool", "isinstance", "type", "id", "str", "repr", "hasattr", "getattr", "callable"}
)
#: Expressions that hold what they are made of.
_SAME = (
    ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred, ast.BoolOp, ast.BinOp, ast.Await, ast.IfExp,
    ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp,
)  # fmt: skip
_TESTS = (ast.Compare, ast.UnaryOp, ast.If, ast.While, ast.Assert, ast.FormattedValue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """One last use of a value.

    ``kind`` is ``method`` (``name`` is called on it), ``read`` (its attribute ``name``), ``argument`` (of a call of
    ``name``, a dotted name or the last part of an attribute), ``returned``, ``stored`` (on an object), ``dropped``,
    ``tested`` (compared, printed, measured), ``managed`` (by ``with``), ``filled`` (a container it is in got more) or
    ``other``.
    """

    kind: str
    node: ast.AST
    name: str = ""


def sinks(
    script: Script,
    expr: ast.expr,
    *,
    through: Callable[[ast.Call], bool] = lambda call: False,
    attributes: bool = False,
    functions: bool = False,
) -> tuple[Sink, ...]:
    """Every last use of an expression's value.

    A call for which ``through`` holds stands for the value it is given (a wrapper, a list of callbacks). With
    ``attributes`` a value kept on ``self`` is followed within its class, with ``functions`` a value given to a function
    of this file is followed inside it, and one that is returned to its callers.
    """
    return tuple(_Flow(script, through, attributes, functions).follow(expr))


class _Flow:
    def __init__(self, script: Script, through: Callable[[ast.Call], bool], attributes: bool, functions: bool) -> None:
        self.script, self.through, self.attributes, self.functions = script, through, attributes, functions
        self.seen: set[ast.AST] = set()

    def follow(self, node: ast.expr) -> Iterator[Sink]:
        """The sinks of one expression."""
        if node in self.seen:
            return
        self.seen.add(node)
        parent = self.script.parent(node)
        if isinstance(parent, ast.expr):
            yield from self._within(parent, node)
        elif isinstance(parent, ast.keyword):
            call = self.script.parent(parent)
            yield from self._argument(call, parent.arg) if isinstance(call, ast.Call) else (_other(parent),)
        elif isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            for target in parent.targets if isinstance(parent, ast.Assign) else [parent.target]:
                yield from self._target(target)
        elif isinstance(parent, ast.Return):
            yield from self._returned(parent)
        else:
            yield self._ending(parent)

    def _within(self, parent: ast.expr, node: ast.expr) -> Iterator[Sink]:
        """The sinks of an expression that is part of a larger one."""
        if isinstance(parent, ast.Attribute):
            yield self._attribute(parent)
        elif isinstance(parent, ast.IfExp) and node is parent.test:
            yield Sink(kind="tested", node=parent)
        elif isinstance(parent, ast.NamedExpr):
            yield from (*self._target(parent.target), *self.follow(parent))
        elif (paired := self._paired(parent, node)) is not None:
            yield from self._target(paired)
        elif isinstance(parent, _SAME) or (isinstance(parent, ast.Subscript) and node is parent.value):
            yield from self.follow(parent)
        elif isinstance(parent, ast.Call):
            yield from self._argument(parent, parent.args.index(node) if node in parent.args else None)
        elif isinstance(parent, (ast.Yield, ast.YieldFrom, ast.Lambda)):
            yield from self._returned(parent)
        else:
            yield self._ending(parent)

    def _paired(self, parent: ast.expr, node: ast.expr) -> ast.expr | None:
        """The target of one element in ``a, b = x, y``."""
        above = self.script.parent(parent)
        if not isinstance(parent, ast.Tuple) or not isinstance(above, ast.Assign) or len(above.targets) != 1:
            return None
        target = above.targets[0]
        same = isinstance(target, ast.Tuple) and len(target.elts) == len(parent.elts)
        plain = same and not any(isinstance(each, ast.Starred) for each in (*target.elts, *parent.elts))  # type: ignore[attr-defined]
        return target.elts[parent.elts.index(node)] if plain and isinstance(target, ast.Tuple) else None

    def _ending(self, parent: ast.AST | None) -> Sink:
        if isinstance(parent, ast.Expr):
            return Sink(kind="dropped", node=parent)
        if isinstance(parent, ast.withitem):
            return Sink(kind="managed", node=parent)
        return Sink(kind="tested", node=parent) if isinstance(parent, _TESTS) else _other(parent)

    def _attribute(self, parent: ast.Attribute) -> Sink:
        above = self.script.parent(parent)
        if isinstance(above, ast.Call) and above.func is parent:
            return Sink(kind="filled" if parent.attr in FILLING else "method", node=above, name=parent.attr)
        return Sink(kind="read", node=parent, name=parent.attr)

    def _argument(self, call: ast.Call, slot: int | str | None) -> Iterator[Sink]:
        if self.through(call):
            yield from self.follow(call)
            return
        func = call.func
        if (
            isinstance(func, ast.Attribute)
            and func.attr in FILLING
            and isinstance(func.value, (ast.Name, ast.Attribute))
        ):
            yield from self._variable(func.value)
            return
        name = self.script.called(call)
        written = name.dotted if name else func.attr if isinstance(func, ast.Attribute) else ""
        if written in _LOOKS:
            yield Sink(kind="tested", node=call, name=written)
            return
        inside = self.script.function_called(call) if self.functions else None
        parameter = _parameter(inside, slot) if inside is not None else None
        if inside is None or parameter is None:
            yield Sink(kind="argument", node=call, name=written)
            return
        for load in self.script.walked.loads[parameter.arg]:
            if inside in self.script.ancestors(load):
                yield from self.follow(load)

    def _target(self, target: ast.expr) -> Iterator[Sink]:
        if isinstance(target, (ast.Name, ast.Attribute)):
            yield from self._variable(target)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            yield from self._variable(target.value)
        else:
            yield Sink(kind="stored", node=target)

    def _variable(self, variable: ast.expr) -> Iterator[Sink]:
        if isinstance(variable, ast.Attribute) and not (self.attributes and _is_self(variable)):
            yield Sink(kind="stored", node=variable)
            return
        uses = self.script.uses(variable)
        for use in uses:
            yield from self.follow(use)
        if not uses:
            yield Sink(kind="dropped", node=variable)

    def _returned(self, parent: ast.AST) -> Iterator[Sink]:
        function = self.script.function_of(parent) if not isinstance(parent, ast.Lambda) else None
        callers = self.script.callers(function) if self.functions and function is not None else ()
        if not callers:
            yield Sink(kind="returned", node=parent)
        for call in callers:
            yield from self.follow(call)


def _other(node: ast.AST | None) -> Sink:
    return Sink(kind="other", node=node or ast.Pass())


def _is_self(target: ast.Attribute) -> bool:
    return isinstance(target.value, ast.Name) and target.value.id == "self"


def _parameter(function: ast.FunctionDef | ast.AsyncFunctionDef, slot: int | str | None) -> ast.arg | None:
    """The parameter that an argument's place or keyword fills."""
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    if isinstance(slot, int):
        return positional[slot] if slot < len(positional) else None
    return next((each for each in (*positional, *given.kwonlyargs) if each.arg == slot), None)
