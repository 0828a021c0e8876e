"""Defaults of a script's options: argparse, dataclasses whose fields become options, environment variables."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlmem.scripts.meaning import Meaning
    from rlmem.scripts.script import Script

_PARSES = ("parse_args", "parse_known_args", "parse_intermixed_args")
_NAMESPACES = ("SimpleNamespace", "Namespace", "EasyDict", "edict", "AttrDict", "DotMap", "ConfigDict", "Munch")


def is_parse(call: ast.Call) -> bool:
    """Whether a call gives back the options of a parser."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in _PARSES


def is_namespace(call: ast.Call) -> bool:
    """Whether a call makes an object whose attributes are its keywords."""
    func = call.func
    name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
    return name in _NAMESPACES


def is_environ(meaning: Meaning, expr: ast.expr) -> bool:
    """Whether an expression is ``os.environ``."""
    return meaning.qualified(expr) in ("os.environ", "environ")


def options(script: Script, name: str) -> Iterator[ast.Call]:
    """The ``add_argument`` calls of an option."""
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument" and destination(call) == name:
            yield call


def destination(call: ast.Call) -> str | None:
    """The attribute under which an option is found."""
    for keyword in call.keywords:
        if keyword.arg == "dest" and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    names = [given.value for given in call.args if isinstance(given, ast.Constant) and isinstance(given.value, str)]
    long = next((name for name in names if name.startswith("--")), names[0] if names else None)
    return long.lstrip("-").replace("-", "_") if long else None


def default(script: Script, name: str) -> ast.expr | None:
    """The default of an option, where there is one option of that name and nobody sets another."""
    found = list(options(script, name))
    if len(found) != 1:
        return None
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "set_defaults":
            return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    if name in script.walked.attribute_values:
        return None  # args.buffer_size = … somewhere
    given = next((keyword.value for keyword in found[0].keywords if keyword.arg == "default"), None)
    return None if isinstance(given, ast.Constant) and given.value is None else given


def switch(script: Script, name: str) -> bool | None:
    """The default of an option that takes no value."""
    for call in options(script, name):
        for keyword in call.keywords:
            if keyword.arg == "action" and isinstance(keyword.value, ast.Constant):
                return {"store_true": False, "store_false": True}.get(str(keyword.value.value))
    return None


def field_default(value: ast.expr) -> ast.expr | None:
    """``field(default=5)`` is 5."""
    if isinstance(value, ast.Call) and isinstance(value.func, (ast.Name, ast.Attribute)):
        name = value.func.id if isinstance(value.func, ast.Name) else value.func.attr
        if name in ("field", "Field"):
            return next((keyword.value for keyword in value.keywords if keyword.arg == "default"), None)
    return value
