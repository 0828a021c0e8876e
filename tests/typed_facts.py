"""Whether JSON data is of the type that the protocol has for it: the keys of a typed dictionary, and their values."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict


def problems(value: Any, kind: Any, place: str = "", seen: set[tuple[str, str]] | None = None) -> Iterator[str]:
    """Yield what of a value is not of its type; ``seen`` gets the class and name of every key that was met.

    >>> from rlmem.agent.protocol import Look
    >>> list(problems({"rounds": 1, "steps": "2", "arrays": 0, "more": 1}, Look))
    ['.more: not in Look', '.progress: missing', ".steps: '2' is no int"]
    """
    if kind is Any:
        return
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        tries = [list(problems(value, choice, place, seen)) for choice in inner]
        yield from min(tries, key=len)
    elif is_typeddict(kind):
        yield from _keys(value, kind, place, seen)
    elif origin is dict:
        if not isinstance(value, dict):
            yield f"{place}: {value!r} is no table"
            return
        for key, part in value.items():
            yield from problems(part, inner[1], f"{place}[{key}]", seen)
    elif origin is list:
        if not isinstance(value, list):
            yield f"{place}: {value!r} is no list"
            return
        for index, part in enumerate(value):
            yield from problems(part, inner[0], f"{place}[{index}]", seen)
    elif kind is float:
        if type(value) not in (int, float):
            yield f"{place}: {value!r} is no number"
    elif type(value) is not kind:
        yield f"{place}: {value!r} is no {kind.__name__}"


def _keys(value: Any, kind: Any, place: str, seen: set[tuple[str, str]] | None) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place}: {value!r} is no {kind.__name__}"
        return
    hints = get_type_hints(kind)
    yield from (f"{place}.{key}: not in {kind.__name__}" for key in sorted(set(value) - set(hints)))
    yield from (f"{place}.{key}: missing" for key in sorted(kind.__required_keys__ - set(value)))
    for key, hint in hints.items():
        if key in value:
            if seen is not None:
                seen.add((kind.__name__, key))
            yield from problems(value[key], hint, f"{place}.{key}", seen)
