"""Sizes as a script writes them: numbers through parameters, shapes, dtypes and Boxes; shared by rules."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from rlmem.core.spaces import DTYPES
from rlmem.scripts import UNKNOWN, Script

#: An image has at least this many pixels a side; smaller boards and grids are not worth a word.
IMAGE_SIDE = 32
_CHANNELS = 32
_DEPTH = 6
_LARGEST = 1e18
_DTYPE_NAMES = {
    "float": "float64", "double": "float64", "float_": "float64", "half": "float16", "int": "int64", "int_": "int64",
    "long": "int64", "bool_": "bool", "byte": "uint8", "ubyte": "uint8", "short": "int16", "single": "float32",
}  # fmt: skip


def known(script: Script, expr: ast.expr | None, depth: int = _DEPTH) -> Any:
    """A value as the script's own, and through a parameter whose callers agree (its default where nobody calls)."""
    if expr is None or depth == 0:
        return UNKNOWN
    value = script.value(expr)
    if value is not UNKNOWN:
        return value
    found = script.definition(expr)
    if found is not expr:
        return known(script, found, depth - 1)
    match expr:
        case ast.Name():
            return _parameter(script, expr, depth - 1)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return _sequence(script, elements, depth - 1)
        case ast.BinOp(left=left, op=op, right=right):
            return _combined(known(script, left, depth - 1), op, known(script, right, depth - 1))
        case ast.Call(func=ast.Name(id="int" | "float" | "round"), args=[only]):
            inner = known(script, only, depth - 1)
            return int(inner) if isinstance(inner, (int, float)) else UNKNOWN
        case ast.Call(func=ast.Name(id="tuple" | "list"), args=[only]):
            return known(script, only, depth - 1)
        case ast.IfExp(body=body, orelse=orelse):
            values = [known(script, body, depth - 1), known(script, orelse, depth - 1)]
            return values[0] if values[0] == values[1] else UNKNOWN
    return UNKNOWN


def _sequence(script: Script, elements: list[ast.expr], depth: int) -> Any:
    values: list[Any] = []
    for element in elements:
        starred = isinstance(element, ast.Starred)
        value = known(script, element.value if isinstance(element, ast.Starred) else element, depth)
        if value is UNKNOWN or (starred and not isinstance(value, (tuple, list))):
            return UNKNOWN
        values += value if starred else [value]
    return tuple(values)


def _combined(left: Any, op: ast.operator, right: Any) -> Any:
    if isinstance(left, (tuple, list)) and isinstance(right, (tuple, list)) and isinstance(op, ast.Add):
        return (*left, *right)
    if not all(isinstance(side, (int, float)) for side in (left, right)):
        return UNKNOWN
    match op:
        case ast.Mult():
            return left * right
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.FloorDiv() if right:
            return left // right
        case ast.Div() if right:
            return left / right
    return UNKNOWN


def _parameter(script: Script, name: ast.Name, depth: int) -> Any:
    """What callers give for a parameter, when all that can be seen agree (its default where nobody calls)."""
    found = script.meaning.lookup(name.id, name)
    function = found[0].node if found else None  # or one around it, where a factory returns a function
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return UNKNOWN
    arguments = [*function.args.posonlyargs, *function.args.args]
    names = [argument.arg for argument in arguments]
    if name.id not in [*names, *(argument.arg for argument in function.args.kwonlyargs)] or _rebound(
        script, function, name.id
    ):
        return UNKNOWN
    default = _default(function, name.id)
    owner = script.class_of(function)
    if owner is not None and function.name != "__init__":
        return UNKNOWN
    position = names.index(name.id) - (owner is not None) if name.id in names else None
    callers = list(script.calls_of(owner.name if owner else function.name))
    given: list[Any] = []
    for call in callers:
        argument = script.argument(call, name.id, position)
        if argument is None and script.has_unknown_arguments(call):
            return UNKNOWN
        given.append(known(script, argument if argument is not None else default, depth))
    if script.meaning.is_handed_on((owner or function).name):
        return UNKNOWN
    if not callers:
        return known(script, default, depth)
    return given[0] if all(value is not UNKNOWN and value == given[0] for value in given) else UNKNOWN


def _default(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> ast.expr | None:
    positional = [*function.args.posonlyargs, *function.args.args]
    late = positional[len(positional) - len(function.args.defaults) :]
    pairs = [*zip(late, function.args.defaults, strict=True)]
    pairs += [(a, d) for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d]
    return next((default for argument, default in pairs if argument.arg == name), None)


def _rebound(script: Script, function: ast.AST, name: str) -> bool:
    """Whether a parameter gets another value inside its function."""
    return len(script.walked.scopes[function].bindings.get(name, ())) != 1


def number(script: Script, expr: ast.expr | None) -> int | None:
    """A whole number, where it can be known."""
    value = known(script, expr)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if abs(value) < _LARGEST and value == int(value) else None


def shape(script: Script, expr: ast.expr | None) -> tuple[int, ...] | None:
    """A shape whose every dimension is known."""
    value = known(script, expr)
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    if not isinstance(value, (tuple, list)) or not value:
        return None
    return tuple(value) if all(isinstance(size, int) and size > 0 for size in value) else None


def is_image(dims: tuple[int, ...] | None) -> bool:
    """Whether sizes look like an image or a stack of images: two sides of pixels and few channels."""
    if dims is None or len(dims) not in (2, 3, 4):
        return False
    sides = sorted(dims, reverse=True)
    return sides[1] >= IMAGE_SIDE and all(size <= _CHANNELS for size in sides[2:])


def dtype_of(script: Script, expr: ast.expr | None) -> str:
    """The dtype an expression names: ``np.uint8``, ``torch.float``, ``"float32"``, ``float``; empty when not known."""
    if expr is None:
        return ""
    value = script.value(expr)
    dotted = value if isinstance(value, str) else script.qualified(expr) or ""
    root, leaf = dotted.split(".")[0], dotted.rsplit(".", maxsplit=1)[-1]
    if root == "torch" and leaf == "float":
        return "float32"
    if root == "torch" and leaf == "int":
        return "int32"
    leaf = _DTYPE_NAMES.get(leaf, leaf)
    return leaf if leaf in DTYPES else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxCall:
    """A ``Box(…)`` of a script; ``None`` and the empty text are what cannot be known."""

    call: ast.Call
    low: float | None
    high: float | None
    shape: tuple[int, ...] | None
    dtype: str
    shape_expr: ast.expr | None

    @property
    def nbytes(self) -> int | None:
        """Bytes of one observation."""
        return prod(self.shape) * DTYPES[self.dtype] if self.shape and self.dtype else None


@lru_cache(maxsize=2)
def boxes(script: Script) -> tuple[BoxCall, ...]:
    """Every Box of Gym or Gymnasium that a script makes."""
    return tuple(_box(script, call) for call in script.calls_of("Box", roots=("gym", "gymnasium", "gym3")))


def _box(script: Script, call: ast.Call) -> BoxCall:
    given = script.argument(call, "shape", 2)
    dtype = script.argument(call, "dtype", 3)
    low, high = script.argument(call, "low", 0), script.argument(call, "high", 1)
    dims = shape(script, given) if given is not None else None
    bounds = known(script, low)
    if given is None and isinstance(bounds, (tuple, list)):
        dims = (len(bounds),)
    return BoxCall(
        call=call,
        low=_plain(bounds),
        high=_plain(known(script, high)),
        shape=dims,
        dtype="float32" if dtype is None and not script.has_unknown_arguments(call) else dtype_of(script, dtype),
        shape_expr=given,
    )


def _plain(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
