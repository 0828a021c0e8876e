"""``--set path=value`` and ``--vary path=a,b,c``."""

from __future__ import annotations

import json
from typing import Any

from rlmem.core.fields import find_field, read_value
from rlmem.errors import SpecError, UsageError

#: Kinds whose value may be written as JSON on the command line.
_STRUCTURED = ("space", "layers", "modules", "widths", "arrays", "counts", "ranges", "settings")


def parse_set(text: str, option: str = "--set") -> tuple[str, Any]:
    """``n_envs=4`` as a checked path and value; structured values are JSON."""
    path, sign, value = text.partition("=")
    path = path.strip()
    if not sign or not path or not value.strip():
        raise UsageError(f"{option} {text!r}: write it as path=value, for example {option} n_envs=4")
    try:
        return path, _value(path, value.strip())
    except SpecError as error:
        raise error.located(option) from None


def parse_vary(text: str) -> tuple[str, tuple[int, ...]]:
    """``agents`` alone, or ``buffer_size=200k,300k``: a count and the values to try."""
    path, sign, values = text.partition("=")
    path = path.strip()
    try:
        field = find_field(path)
    except SpecError as error:
        raise error.located("--vary") from None
    if field.kind != "count":
        raise UsageError(f"--vary {path}: only counts can be varied, and {path} is a {field.kind}")
    if not sign:
        return path, ()
    parts = [part for part in values.split(",") if part.strip()]
    if not parts:
        raise UsageError(f"--vary {text!r}: give values, for example --vary {path}=1k,10k,100k")
    try:
        return path, tuple(read_value(field, part) for part in parts)
    except SpecError as error:
        raise error.located("--vary") from None


def _value(path: str, text: str) -> Any:
    field = find_field(path)
    if text.lower() in ("none", "null"):
        return None
    value: Any = text
    if field.kind in _STRUCTURED and text[:1] in "[{":
        try:
            value = json.loads(text)
        except json.JSONDecodeError as error:
            raise SpecError(path, f"not valid JSON: {error.msg} at character {error.pos}") from None
        except (ValueError, RecursionError):  # a number of thousands of digits, thousands of brackets
            raise SpecError(path, "not valid JSON: too long or nested too deep") from None
    # The spec checks again when it takes the value; checking here gives the option's name to the error.
    try:
        read_value(field, value)
    except RecursionError:
        raise SpecError(path, "nested too deep") from None
    return value
