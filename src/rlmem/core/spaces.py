"""Observation and action spaces as sizes: shapes and dtypes, no sampling, no framework.

The names follow Gymnasium. :class:`Window` is ours: an observation that is a sliding history over a stream plus
a few extra values, the case in which storing whole observations stores almost everything many times.

>>> space = parse_space({"type": "dict", "spaces": {"image": {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"},
...                                                 "vector": {"type": "box", "shape": [31]}}})
>>> [(leaf.name, leaf.nbytes) for leaf in leaves(space)]
[('image', 21168), ('vector', 124)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from math import isfinite, prod
from typing import Any

from rlmem.errors import SpecError, did_you_mean

DTYPES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "float16": 2,
    "bfloat16": 2,
    "int32": 4,
    "uint32": 4,
    "float32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
_LARGEST_DIMENSION = 10**9
_IMAGE_RANK = 3
_LARGEST_BOUND = 1e300


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """An array of one dtype; ``low`` and ``high`` matter only for recognising images."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrete:
    """One integer below ``n``."""

    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiDiscrete:
    """Several integers, each below its own bound."""

    nvec: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiBinary:
    """An array of bits, one byte each in practice."""

    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A flat vector: ``length`` samples of ``sample`` values (a sliding history) followed by ``extra`` values.

    Every environment step appends ``step`` samples and drops as many.
    """

    sample: int
    extra: int = 0
    step: int = 1
    dtype: str = "float32"
    length: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleSpace:
    """Spaces in order."""

    spaces: tuple[Space, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DictSpace:
    """Spaces by name, in the order written."""

    spaces: tuple[tuple[str, Space], ...]


Space = Box | Discrete | MultiDiscrete | MultiBinary | Window | TupleSpace | DictSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One array of a space as a framework would store it: dotted name, shape, dtype; ``width`` is its one-hot size."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    width: int
    #: Bounds of 0 and 255, or none given: with three dimensions of uint8, what frameworks treat as an image.
    is_byte_range: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of one value."""
        return prod(self.shape) * DTYPES[self.dtype]

    @property
    def is_image(self) -> bool:
        """uint8 with three dimensions and the full range: what frameworks treat as an image."""
        return self.is_byte_range and self.dtype == "uint8" and len(self.shape) == _IMAGE_RANK

    @property
    def is_channels_first(self) -> bool:
        """Whether an image's channels come first: the smallest dimension is taken for them."""
        return self.is_image and min(range(_IMAGE_RANK), key=lambda axis: self.shape[axis]) == 0


@singledispatch
def leaves(space: object, name: str = "") -> tuple[Leaf, ...]:
    """The arrays of a space, depth first; register a function here to teach rlmem another space."""
    raise SpecError(
        name or "space",
        f"cannot size a {type(space).__name__} space; describe it as the Box of its largest (padded) value, "
        "or register it with rlmem.core.spaces.leaves.register",
    )


@leaves.register
def _(space: Box, name: str = "") -> tuple[Leaf, ...]:
    byte_range = space.low in (None, 0) and space.high in (None, 255)
    return (Leaf(name=name, shape=space.shape, dtype=space.dtype, width=prod(space.shape), is_byte_range=byte_range),)


@leaves.register
def _(space: Discrete, name: str = "") -> tuple[Leaf, ...]:
    return (Leaf(name=name, shape=(1,), dtype="int64", width=space.n),)


@leaves.register
def _(space: MultiDiscrete, name: str = "") -> tuple[Leaf, ...]:
    return (Leaf(name=name, shape=(len(space.nvec),), dtype="int64", width=sum(space.nvec)),)


@leaves.register
def _(space: MultiBinary, name: str = "") -> tuple[Leaf, ...]:
    return (Leaf(name=name, shape=space.shape, dtype="int8", width=prod(space.shape)),)


@leaves.register
def _(space: Window, name: str = "") -> tuple[Leaf, ...]:
    size = space.length * space.sample + space.extra
    return (Leaf(name=name, shape=(size,), dtype=space.dtype, width=size),)


@leaves.register
def _(space: TupleSpace, name: str = "") -> tuple[Leaf, ...]:
    parts = ((f"{name}.{i}" if name else str(i), sub) for i, sub in enumerate(space.spaces))
    return tuple(leaf for path, sub in parts for leaf in leaves(sub, path))


@leaves.register
def _(space: DictSpace, name: str = "") -> tuple[Leaf, ...]:
    parts = ((f"{name}.{key}" if name else key, sub) for key, sub in space.spaces)
    return tuple(leaf for path, sub in parts for leaf in leaves(sub, path))


def nbytes(space: Space) -> int:
    """Bytes of one value of the space, all leaves together."""
    return sum(leaf.nbytes for leaf in leaves(space))


def is_nested(space: Space) -> bool:
    """Whether a Dict or Tuple holds another one."""
    containers = (DictSpace, TupleSpace)
    if isinstance(space, DictSpace):
        return any(isinstance(sub, containers) for _, sub in space.spaces)
    return isinstance(space, TupleSpace) and any(isinstance(sub, containers) for sub in space.spaces)


def parse_space(data: Any, path: str = "space") -> Space:
    """A space from its description; the error names the field and what was expected."""
    if not isinstance(data, Mapping):
        raise SpecError(path, f"expected a mapping with a 'type', got {data!r}")
    kind = data.get("type")
    if not isinstance(kind, str) or kind.lower() not in _READERS:
        known = ", ".join(_READERS)
        hint = did_you_mean(kind, _READERS) if isinstance(kind, str) else ""
        raise SpecError(
            f"{path}.type",
            f"cannot size a {kind!r} space{hint}; known: {known}. "
            "Describe anything else as the box of its largest (padded) value",
        )
    allowed, reader = _READERS[kind.lower()]
    for key in data:
        if key != "type" and key not in allowed:
            fields = ", ".join(allowed)
            raise SpecError(f"{path}.{key}", f"unknown field{did_you_mean(str(key), allowed)}; a {kind} takes {fields}")
    return reader(data, path)


def describe_space(space: Space) -> dict[str, Any]:
    """The description :func:`parse_space` reads back."""
    match space:
        case Box():
            out: dict[str, Any] = {"type": "box", "shape": list(space.shape), "dtype": space.dtype}
            return out | {k: v for k, v in (("low", space.low), ("high", space.high)) if v is not None}
        case Discrete():
            return {"type": "discrete", "n": space.n}
        case MultiDiscrete():
            return {"type": "multidiscrete", "nvec": list(space.nvec)}
        case MultiBinary():
            return {"type": "multibinary", "shape": list(space.shape)}
        case Window():
            return {
                "type": "window",
                "sample": space.sample,
                "extra": space.extra,
                "step": space.step,
                "dtype": space.dtype,
            }
        case TupleSpace():
            return {"type": "tuple", "spaces": [describe_space(s) for s in space.spaces]}
        case DictSpace():
            return {"type": "dict", "spaces": {k: describe_space(s) for k, s in space.spaces}}


def _dimension(value: Any, path: str, *, minimum: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SpecError(path, f"expected a whole number, got {value!r}")
    if not minimum <= value <= _LARGEST_DIMENSION:
        raise SpecError(path, f"expected a number from {minimum} to {_LARGEST_DIMENSION:,}, got {value:,}")
    return value


def _shape(value: Any, path: str) -> tuple[int, ...]:
    if isinstance(value, int):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise SpecError(path, f"expected a list of dimensions such as [84, 84, 3], got {value!r}")
    return tuple(_dimension(item, f"{path}[{i}]") for i, item in enumerate(value))


def _dtype(value: Any, path: str) -> str:
    if not isinstance(value, str) or value not in DTYPES:
        hint = did_you_mean(value, DTYPES) if isinstance(value, str) else ""
        raise SpecError(path, f"unknown dtype {value!r}{hint}; known: {', '.join(DTYPES)}")
    return str(value)


def _bound(value: Any, path: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise SpecError(path, f"expected a number, got {value!r}")
    # JSON has no infinity, and an infinite bound says the same as none.
    return float(value) if abs(value) <= _LARGEST_BOUND and isfinite(value) else None


def _read_box(data: Mapping[str, Any], path: str) -> Space:
    if "shape" not in data:
        raise SpecError(f"{path}.shape", "missing; a box needs a shape such as [84, 84, 3]")
    return Box(
        shape=_shape(data["shape"], f"{path}.shape"),
        dtype=_dtype(data.get("dtype", "float32"), f"{path}.dtype"),
        low=_bound(data.get("low"), f"{path}.low"),
        high=_bound(data.get("high"), f"{path}.high"),
    )


def _read_discrete(data: Mapping[str, Any], path: str) -> Space:
    return Discrete(n=_dimension(data.get("n"), f"{path}.n"))


def _read_multidiscrete(data: Mapping[str, Any], path: str) -> Space:
    nvec = data.get("nvec")
    if not isinstance(nvec, (list, tuple)) or not nvec:
        raise SpecError(f"{path}.nvec", f"expected a list of bounds such as [3, 3, 2], got {nvec!r}")
    return MultiDiscrete(nvec=_shape(nvec, f"{path}.nvec"))


def _read_multibinary(data: Mapping[str, Any], path: str) -> Space:
    key = "n" if "n" in data else "shape"
    return MultiBinary(shape=_shape(data.get(key), f"{path}.{key}"))


def _read_window(data: Mapping[str, Any], path: str) -> Space:
    return Window(
        sample=_dimension(data.get("sample"), f"{path}.sample"),
        extra=_dimension(data.get("extra", 0), f"{path}.extra", minimum=0),
        step=_dimension(data.get("step", 1), f"{path}.step"),
        dtype=_dtype(data.get("dtype", "float32"), f"{path}.dtype"),
    )


def _read_tuple(data: Mapping[str, Any], path: str) -> Space:
    parts = data.get("spaces")
    if not isinstance(parts, (list, tuple)) or not parts:
        raise SpecError(f"{path}.spaces", f"expected a list of spaces, got {parts!r}")
    return TupleSpace(spaces=tuple(parse_space(p, f"{path}.spaces[{i}]") for i, p in enumerate(parts)))


def _read_dict(data: Mapping[str, Any], path: str) -> Space:
    parts = data.get("spaces")
    if not isinstance(parts, Mapping) or not parts:
        raise SpecError(f"{path}.spaces", f"expected a mapping from names to spaces, got {parts!r}")
    return DictSpace(spaces=tuple((str(k), parse_space(v, f"{path}.spaces.{k}")) for k, v in parts.items()))


_READERS = {
    "box": (("shape", "dtype", "low", "high"), _read_box),
    "discrete": (("n",), _read_discrete),
    "multidiscrete": (("nvec",), _read_multidiscrete),
    "multibinary": (("n", "shape"), _read_multibinary),
    "window": (("sample", "extra", "step", "dtype"), _read_window),
    "tuple": (("spaces",), _read_tuple),
    "dict": (("spaces",), _read_dict),
}
