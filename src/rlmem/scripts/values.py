"""The value of an expression where it can be known without running anything; else ``UNKNOWN``."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from rlmem.scripts import arguments, data

if TYPE_CHECKING:
    from rlmem.scripts.script import Script


class _Unknown:
    """Not known. It is false, and equal to nothing but itself."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
_DEPTH = 30
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "abs": abs,
    "round": round,
    "min": min,
    "max": max,
    "len": len,
    "sum": sum,
    "tuple": tuple,
    "list": list,
    "math.prod": math.prod,
    "numpy.prod": math.prod,
}
#: A text or a list longer than this is no setting.
_LONGEST = 100_000
#: Nor is a larger number.
_BITS = 512


class Values:
    """The evaluator of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._known: dict[ast.expr, Any] = {}

    def value(self, expr: ast.expr | None, depth: int = 0) -> Any:
        """The value; computed once."""
        if expr is None or depth > _DEPTH:
            return UNKNOWN
        if expr not in self._known:
            self._known[expr] = UNKNOWN  # a definition that goes through itself
            try:
                self._known[expr] = self._evaluate(expr, depth)
            except (ArithmeticError, TypeError, ValueError, AttributeError, KeyError, IndexError, RecursionError):
                self._known[expr] = UNKNOWN
        return self._known[expr]

    def _evaluate(self, expr: ast.expr, depth: int) -> Any:
        if isinstance(expr, ast.Constant):
            return expr.value
        found = self.script.definition(expr)
        if (
            isinstance(found, (ast.List, ast.Set, ast.Dict, ast.Call))
            and self.script.meaning.containers.written(expr) != frozenset()
        ):
            return UNKNOWN  # it was written to since
        if found is not expr:
            return self._converted(expr, self.value(found, depth + 1))
        handler = _HANDLERS.get(type(expr))
        return handler(self, expr, depth + 1) if handler else UNKNOWN

    def _converted(self, expr: ast.expr, value: Any) -> Any:
        """An option's default that is text becomes what its ``type`` says."""
        if isinstance(value, str) and isinstance(expr, ast.Attribute) and self._is_option(expr):
            for call in arguments.options(self.script, expr.attr):
                kind = next((keyword.value for keyword in call.keywords if keyword.arg == "type"), None)
                if isinstance(kind, ast.Name) and kind.id in ("int", "float"):
                    return int(value) if kind.id == "int" else float(value)
        return value

    def _is_option(self, expr: ast.Attribute) -> bool:
        base = self.script.definition(expr.value)
        return isinstance(base, ast.Call) and arguments.is_parse(base)

    def _unary(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.UnaryOp)
        value = self.value(expr.operand, depth)
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(expr.op, ast.Not):
            return not value
        return -value if isinstance(expr.op, ast.USub) else +value if isinstance(expr.op, ast.UAdd) else UNKNOWN

    def _binary(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.BinOp)
        left, right = self.value(expr.left, depth), self.value(expr.right, depth)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        if isinstance(expr.op, ast.Pow):
            small = isinstance(left, (int, float)) and isinstance(right, (int, float)) and abs(right) <= 64
            return left**right if small and abs(left) <= 1e6 else UNKNOWN
        if isinstance(expr.op, ast.LShift):
            return left << right if isinstance(left, int) and isinstance(right, int) and 0 <= right <= 64 else UNKNOWN
        operate = _OPERATORS.get(type(expr.op))
        if operate is None or not _is_small(expr.op, left, right):
            return UNKNOWN
        return operate(left, right)

    def _compare(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.Compare)
        operate = _COMPARISONS.get(type(expr.ops[0])) if len(expr.ops) == 1 else None
        left, right = self.value(expr.left, depth), self.value(expr.comparators[0], depth)
        return UNKNOWN if operate is None or left is UNKNOWN or right is UNKNOWN else operate(left, right)

    def _either(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.BoolOp)
        value: Any = UNKNOWN
        for part in expr.values:
            value = self.value(part, depth)
            if value is UNKNOWN or bool(value) is isinstance(expr.op, ast.Or):
                return value
        return value

    def _conditional(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.IfExp)
        test = self.value(expr.test, depth)
        if test is UNKNOWN:
            one, other = self.value(expr.body, depth), self.value(expr.orelse, depth)
            return one if one is not UNKNOWN and type(one) is type(other) and one == other else UNKNOWN
        return self.value(expr.body if test else expr.orelse, depth)

    def _sequence(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, (ast.Tuple, ast.List, ast.Set))
        items: list[Any] = []
        for element in expr.elts:
            if isinstance(element, ast.Starred):
                inner = self.value(element.value, depth)
                if not isinstance(inner, (tuple, list)):
                    return UNKNOWN
                items += inner
            else:
                items.append(self.value(element, depth))
        if UNKNOWN in items:
            return UNKNOWN
        if isinstance(expr, ast.Set):
            return frozenset(items)
        return items if isinstance(expr, ast.List) else tuple(items)

    def _dict(self, expr: ast.expr, depth: int) -> Any:
        items = self.script.meaning.items(expr)
        return UNKNOWN if items is None else {key: self.value(value, depth) for key, value in items}

    def _text(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.JoinedStr)
        parts = []
        for part in expr.values:
            if isinstance(part, ast.FormattedValue):
                value = self.value(part.value, depth)
                if value is UNKNOWN or part.format_spec is not None or part.conversion != -1:
                    return UNKNOWN
                parts.append(str(value))
            else:
                parts.append(str(self.value(part, depth)))
        return "".join(parts) if sum(map(len, parts)) <= _LONGEST else UNKNOWN

    def _call(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.Call)
        dotted = self.script.meaning.qualified(expr.func) or ""
        if dotted == "dict":
            return self._dict(expr, depth)
        if dotted in data.LOADERS:
            return data.load(self.script, expr) or UNKNOWN
        known = _FUNCTIONS.get(dotted)
        if known is None or expr.keywords:
            return UNKNOWN
        given = [self.value(argument, depth) for argument in expr.args]
        if UNKNOWN in given or any(isinstance(item, str) and len(item) > 40 for item in given):
            return UNKNOWN
        return known(*given)

    def _item(self, expr: ast.expr, depth: int) -> Any:
        assert isinstance(expr, ast.Subscript)
        key = self.value(expr.slice, depth) if not isinstance(expr.slice, ast.Slice) else UNKNOWN
        holder = self.value(expr.value, depth)
        if key is UNKNOWN or not isinstance(holder, (dict, list, tuple)):
            return UNKNOWN
        if isinstance(holder, dict):
            return holder.get(key, UNKNOWN)
        return holder[key] if isinstance(key, int) else UNKNOWN

    def _name(self, expr: ast.expr, depth: int) -> Any:
        """A constant of another file, or one option of a parser that takes no value."""
        if isinstance(expr, ast.Attribute):
            base = self.script.definition(expr.value)
            if isinstance(base, ast.Call) and arguments.is_parse(base):
                switch = arguments.switch(self.script, expr.attr)
                return UNKNOWN if switch is None or self.script.meaning.assigned_elsewhere(expr) else switch
        dotted = self.script.meaning.qualified(expr)
        abroad = self.script.project.symbol(self.script, dotted) if dotted and self.script.project else None
        if abroad is None:
            return UNKNOWN
        other, binding = abroad
        if binding.kind != "assign" or binding.value is None or binding.index is not None:
            return UNKNOWN
        return other.value(binding.value)


def _is_small(op: ast.operator, left: Any, right: Any) -> bool:
    """Whether an operation gives something that could be a setting, before it is tried."""
    sizes = [len(side) if isinstance(side, (str, bytes, list, tuple)) else None for side in (left, right)]
    if isinstance(op, ast.Mod) and isinstance(left, (str, bytes)):
        return False
    if isinstance(op, ast.Mult) and any(size is not None for size in sizes):
        counts = [side if size is None else size for side, size in zip((left, right), sizes, strict=True)]
        return all(isinstance(count, int) for count in counts) and counts[0] * counts[1] <= _LONGEST
    if any(size is not None and size > _LONGEST for size in sizes):
        return False
    return not any(isinstance(side, int) and side.bit_length() > _BITS for side in (left, right))


_HANDLERS: Mapping[type, Callable[[Values, ast.expr, int], Any]] = {
    ast.UnaryOp: Values._unary,
    ast.BinOp: Values._binary,
    ast.Compare: Values._compare,
    ast.BoolOp: Values._either,
    ast.IfExp: Values._conditional,
    ast.Tuple: Values._sequence,
    ast.List: Values._sequence,
    ast.Set: Values._sequence,
    ast.Dict: Values._dict,
    ast.JoinedStr: Values._text,
    ast.Call: Values._call,
    ast.Subscript: Values._item,
    ast.Name: Values._name,
    ast.Attribute: Values._name,
}
