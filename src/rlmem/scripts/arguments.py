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


def is_untouched(meaning: Meaning, parse: ast.Call, use: ast.Attribute) -> bool:
    """Whether the options are those of the command line: none is given in the script, and nobody writes to them."""
    given = [*parse.args, *(keyword.value for keyword in parse.keywords)]
    if any(not (isinstance(item, ast.List) and not item.elts) for item in given):
        return False
    names = [use.value.id] if isinstance(use.value, ast.Name) else []
    for name in names:
        for node in meaning.script.walked.loads.get(name, ()):
            parent = meaning.script.parent(node)
            called = parent.func if isinstance(parent, ast.Call) else None
            if isinstance(called, ast.Name) and called.id in ("setattr", "vars") and _writes(meaning.script, parent):
                return False
            if isinstance(parent, ast.Attribute) and parent.attr == "__dict__":
                return False
    return True


def _writes(script: Script, call: ast.AST | None) -> bool:
    """``setattr(args, …)``, ``vars(args).update(…)``, ``vars(args)["n"] = …``."""
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "setattr":
        return True
    above = script.parent(call) if call is not None else None
    if isinstance(above, ast.Attribute):
        return above.attr in ("update", "setdefault", "pop", "clear")
    return isinstance(above, ast.Assign) or (isinstance(above, ast.Subscript) and not isinstance(above.ctx, ast.Load))


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
    if len(found) != 1 or name in script.walked.attribute_values:  # args.buffer_size = … somewhere
        return None
    for call in script.calls:
        others = isinstance(call.func, ast.Attribute) and call.func.attr == "set_defaults"
        if others and any(keyword.arg in (name, None) for keyword in call.keywords):
            return None
    given = next((keyword.value for keyword in found[0].keywords if keyword.arg == "default"), None)
    if not isinstance(given, ast.Constant):
        return given
    kind = next((keyword.value for keyword in found[0].keywords if keyword.arg == "type"), None)
    plain = kind is None or (isinstance(kind, ast.Name) and kind.id in ("int", "float", "str"))
    return None if given.value is None or (isinstance(given.value, str) and not plain) else given


def switch(script: Script, name: str) -> bool | None:
    """The default of an option that takes no value."""
    found = list(options(script, name))
    if len(found) != 1 or any(keyword.arg == "default" for keyword in found[0].keywords):
        return None
    for keyword in found[0].keywords:
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
