"""Arrays that a script allocates by a shape: which of them are stores of a replay buffer, and what they take."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from rlmem.core.spaces import DTYPES
from rlmem.rules.shapes import dtype_of, known, number, shape
from rlmem.scripts import Script

#: What hand-written buffers call their number of rows.
CAPACITY = re.compile(
    r"capacity|max_?(size|len|length|mem|memory|replay|entries|transitions|samples)|"
    r"(buffer|mem|memory|replay|storage)_?(size|len|length|limit|capacity|max)",
    re.IGNORECASE,
)
#: Classes that keep transitions.
STORE_CLASS = re.compile(r"buffer|replay|memory|storage|experience", re.IGNORECASE)
_MAKERS = {"zeros", "empty", "ones", "full"}
_LIBRARIES = {"numpy": "float64", "torch": "float32", "jax": "float32", "cupy": "float64"}
#: From here on an array in a class that keeps transitions is taken for a store.
_MANY_ROWS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCall:
    """An array that a script allocates: ``dims`` has ``None`` for a size that is not known, ``...`` for several."""

    call: ast.Call
    name: str
    library: str
    dims: tuple[Any, ...]
    exprs: tuple[ast.expr, ...]
    dtype: str
    dtype_given: bool
    device: ast.expr | None
    on_cuda: bool
    owner: ast.ClassDef | None

    @property
    def row_shape(self) -> tuple[int, ...] | None:
        """The sizes after the first, where all are known."""
        rest = self.dims[1:]
        return tuple(rest) if rest and all(isinstance(size, int) for size in rest) else None

    @property
    def rows(self) -> int | None:
        """The first size."""
        first = self.dims[0] if self.dims else None
        return first if isinstance(first, int) else None

    @property
    def nbytes(self) -> int | None:
        """Bytes in all."""
        if not self.dtype or not all(isinstance(size, int) for size in self.dims):
            return None
        return int(prod(self.dims)) * DTYPES[self.dtype]

    def filled_bytes(self, steps: int | None) -> int | None:
        """Bytes of the rows that a run of so many steps can write; all of them where its length is not known."""
        if self.nbytes is None or steps is None or not self.rows or self.library != "numpy":
            return self.nbytes
        return self.nbytes // self.rows * min(self.rows, steps)

    @property
    def is_store(self) -> bool:
        """Whether its rows are the capacity of a replay buffer: by the name of the size, or by class and size."""
        if not self.exprs:
            return False
        if CAPACITY.search(ast.unparse(self.exprs[0])):
            return True
        kept = self.owner is not None and STORE_CLASS.search(self.owner.name) is not None
        return kept and (self.rows or 0) >= _MANY_ROWS

    def like(self, other: ArrayCall) -> bool:
        """Whether another array has the same shape, as written, and dtype."""
        same = [ast.dump(one) for one in self.exprs] == [ast.dump(one) for one in other.exprs]
        return same and self.dtype == other.dtype and self.library == other.library


@lru_cache(maxsize=2)
def arrays(script: Script) -> tuple[ArrayCall, ...]:
    """Every array of numpy or torch that a script allocates by a shape and gives a name, and that may be a store."""
    return tuple(_arrays(script))


def _arrays(script: Script) -> Iterator[ArrayCall]:
    for call in script.calls_of(*_MAKERS, roots=tuple(_LIBRARIES)):
        name = script.called(call)
        target = _target(script, call)
        exprs = _dims(script, call)
        owner = script.class_of(call)
        if name is None or target is None or not exprs or not _may_store(exprs, owner):
            continue
        device, cuda, moved = _moves(script, call)
        given = script.argument(call, "dtype", _dtype_position(name.root, name.leaf))
        default = "" if name.leaf == "full" else _LIBRARIES[name.root]  # full takes the dtype of its value
        yield ArrayCall(
            call=call,
            name=target,
            library=name.root,
            dims=tuple(_sizes(script, exprs)),
            exprs=exprs,
            dtype=moved or dtype_of(script, given) if given is not None or moved else default,
            dtype_given=given is not None or bool(moved),
            device=script.argument(call, "device") or device,
            on_cuda=cuda,
            owner=owner,
        )


def _may_store(exprs: tuple[ast.expr, ...], owner: ast.ClassDef | None) -> bool:
    """Whether a look at its sizes is worth it: they are named like a capacity, or in a store, or an observation's."""
    if owner is not None and STORE_CLASS.search(owner.name):
        return True
    last = exprs[-1].value if isinstance(exprs[-1], ast.Starred) else exprs[-1]
    observed = isinstance(last, ast.Attribute) and last.attr == "shape"
    return observed or any(CAPACITY.search(ast.unparse(expr)) for expr in exprs[:2])


def _dtype_position(library: str, leaf: str) -> int | None:
    return None if library == "torch" else 2 if leaf == "full" else 1


def _target(script: Script, call: ast.Call) -> str | None:
    """The name an array gets, through ``.to(device)`` and the like; dict entries by their key."""
    below: ast.AST = call
    for above in script.ancestors(call):
        match above:
            case ast.Call(func=ast.Name(id="dict")) if isinstance(below, ast.keyword):
                return below.arg
            case ast.Attribute() | ast.Call(func=ast.Attribute()) | ast.keyword():
                pass
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                return last_name(target)
            case ast.Dict(keys=keys, values=values):
                key = next((k for k, v in zip(keys, values, strict=True) if v is below), None)
                return str(key.value) if isinstance(key, ast.Constant) else None
            case _:
                return None
        below = above
    return None


def last_name(target: ast.expr) -> str | None:
    """The name a value gets: of a variable, an attribute, or an entry of a dict."""
    match target:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case ast.Subscript(slice=ast.Constant(value=str() as name)):
            return name
    return None


def _dims(script: Script, call: ast.Call) -> tuple[ast.expr, ...]:
    """The expressions of a shape, one a dimension; a starred one stands for several."""
    given = script.argument(call, "shape") or script.argument(call, "size")
    if given is None and call.args:
        many = len(call.args) > 1 and (name := script.called(call)) is not None and name.root == "torch"
        if many and (name is None or name.leaf != "full"):
            return tuple(call.args)
        given = call.args[0]
    return tuple(_flat(script, given)) if given is not None else ()


def _flat(script: Script, expr: ast.expr) -> Iterator[ast.expr]:
    match expr:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            yield from elements
        case ast.BinOp(left=left, op=ast.Add(), right=right) if isinstance(left, (ast.Tuple, ast.List)):
            yield from left.elts
            yield from _flat_tail(script, right)
        case ast.Starred():
            yield expr
        case ast.Name() | ast.Attribute():
            found = script.definition(expr)
            if isinstance(found, (ast.Tuple, ast.List)):
                yield from found.elts
            else:
                yield expr
        case _:
            yield expr


def _flat_tail(script: Script, expr: ast.expr) -> Iterator[ast.expr]:
    if isinstance(expr, (ast.Tuple, ast.List)):
        yield from expr.elts
    else:
        yield ast.Starred(value=expr, ctx=ast.Load())


def _sizes(script: Script, exprs: tuple[ast.expr, ...]) -> Iterator[Any]:
    for expr in exprs:
        if isinstance(expr, ast.Starred):
            several = shape(script, expr.value)
            yield from several if several is not None else (...,)
        else:
            value = known(script, expr)
            if isinstance(value, (tuple, list)) and all(isinstance(size, int) for size in value):
                yield from value
            else:
                yield number(script, expr)


def _moves(script: Script, call: ast.Call) -> tuple[ast.expr | None, bool, str]:
    """What is done to a new array in the same breath: device given, ``.cuda()`` called, dtype changed."""
    device, cuda, dtype = None, False, ""
    for above in script.ancestors(call):
        match above:
            case ast.Call(func=ast.Attribute(attr="to"), args=[first, *_]):
                changed = dtype_of(script, first)
                dtype, device = changed or dtype, device if changed else first
            case ast.Call(func=ast.Attribute(attr="cuda")):
                cuda = True
            case ast.Call(func=ast.Attribute(attr="astype" | "type"), args=[first, *_]):
                dtype = dtype_of(script, first)
            case ast.Call(func=ast.Attribute(attr="byte")):
                dtype = "uint8"
            case ast.Attribute() | ast.Call(func=ast.Attribute()):
                pass
            case _:
                break
    return device, cuda, dtype
