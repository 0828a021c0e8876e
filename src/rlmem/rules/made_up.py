"""Environments that are no one's task: made up for a test or a benchmark, without pixels, or never built."""

from __future__ import annotations

import ast
import re

from rlmem.rules.memories import dotted
from rlmem.rules.syntax import leaf, methods
from rlmem.scripts import Script

_MADE_UP = re.compile(r"^_?(Random|Dummy|Fake|Mock|Tests?|Toy|Synthetic|Stub)(?![a-z])|(Dummy|Fake|Mock|Stub)Env")
_RAM = re.compile(r"Ram(?![a-z])|RAM|(?<![a-z])ram(?![a-z])")
_BLANK = {"zeros", "ones", "full", "zeros_like", "ones_like", "sample", "rand", "random", "randint", "integers"}


def is_made_up(script: Script, node: ast.AST) -> bool:
    """Whether a node belongs to a class or a call with a telling name, or to an environment that shows nothing."""
    owner = node if isinstance(node, ast.ClassDef) else script.class_of(node)
    if owner is not None and (_MADE_UP.search(owner.name) or _is_blank(script, owner)):
        return True
    for above in script.ancestors(node):
        if isinstance(above, ast.Call):
            named = (leaf(above), *(dotted(argument).rsplit(".", maxsplit=1)[-1] for argument in above.args))
            if any(_MADE_UP.search(name) for name in named):
                return True
        elif isinstance(above, ast.stmt):
            break
    return False


def _is_blank(script: Script, cls: ast.ClassDef) -> bool:
    """Whether ``step`` and ``reset`` return constant arrays, or samples of the space."""
    written = methods(cls)
    returned = [
        node.value.elts[0] if isinstance(node.value, ast.Tuple) and node.value.elts else node.value
        for name in ("step", "reset")
        if name in written
        for node in script.walked.returns.get(written[name], ())
        if node.value is not None
    ]
    return bool(returned) and all(_shows_nothing(script, expr) for expr in returned)


def _shows_nothing(script: Script, expr: ast.expr) -> bool:
    made = script.definition(expr)
    if not isinstance(made, ast.Call) or leaf(made) not in _BLANK:
        return False
    return made is expr or all(_is_returned(script, use) for use in script.uses(expr))


def _is_returned(script: Script, use: ast.expr) -> bool:
    above = script.parent(use)
    return isinstance(script.parent(above) if isinstance(above, ast.Tuple) else above, ast.Return)


def observes_ram(script: Script, cls: ast.ClassDef | None = None) -> bool:
    """Whether a class scales the 128 bytes of a console's memory, or the script asks for nothing else."""
    if cls is not None:
        return bool(_RAM.search(cls.name))
    makes = list(script.calls_of("make", "make_vec", "make_vec_env", "make_atari_env"))
    return bool(makes) and all(_makes_ram(script, call) for call in makes)


def _makes_ram(script: Script, call: ast.Call) -> bool:
    name = script.value(call.args[0]) if call.args else None
    asked = script.argument(call, "obs_type")
    return (isinstance(name, str) and "-ram" in name) or (asked is not None and script.value(asked) == "ram")


def is_unused(script: Script, cls: ast.ClassDef) -> bool:
    """Whether a file never names a class outside of it."""
    return not any(cls not in script.ancestors(name) for name in script.walked.loads.get(cls.name, ()))
