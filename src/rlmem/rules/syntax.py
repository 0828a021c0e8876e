"""Small questions about the syntax of a script that several rules ask: methods, attributes of ``self``, conditions, loops."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.rules.shapes import number
from rlmem.scripts import Script

#: What stands for "this runs for as long as the training does".
STEPPING = ("step", "backward", "learn", "train_on_batch", "optimize_model", "update_parameters")
#: Methods that make a container smaller.
SHRINKING = ("clear", "pop", "popleft", "popitem", "remove", "discard", "truncate")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def method_calls(script: Script, *names: str) -> Iterator[ast.Call]:
    """Calls of the form ``anything.name(…)``, by the name alone."""
    for name in names:
        for attribute in script.walked.attributes.get(name, ()):
            call = script.parent(attribute)
            if isinstance(call, ast.Call) and call.func is attribute:
                yield call


def leaf(call: ast.Call) -> str:
    """The last word of what a call calls: ``append`` in ``self.seen.append(x)``."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def receiver(call: ast.Call) -> ast.expr | None:
    """The object whose method a call calls."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def self_attribute(expr: ast.expr) -> str | None:
    """``x`` in ``self.x``, ``self.x[0]`` and ``self.x["a"]``."""
    while isinstance(expr, ast.Subscript):
        expr = expr.value
    if isinstance(expr, ast.Attribute) and isinstance(expr.value, ast.Name) and expr.value.id == "self":
        return expr.attr
    return None


def base_name(expr: ast.expr) -> str | None:
    """The variable at the bottom of ``x``, ``x[0]`` and ``x.y``."""
    while isinstance(expr, (ast.Subscript, ast.Attribute)):
        expr = expr.value
    return expr.id if isinstance(expr, ast.Name) else None


def names_in(node: ast.AST) -> set[str]:
    """Every variable an expression mentions."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def methods(cls: ast.ClassDef) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions written in a class, by name."""
    return {node.name: node for node in cls.body if isinstance(node, _FUNCTIONS)}


def reachable(cls: ast.ClassDef, *starts: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Methods that run when one of these does, through ``self.other()``."""
    written = methods(cls)
    found: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
    waiting = [name for name in starts if name in written]
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        found[name] = written[name]
        for node in ast.walk(written[name]):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and self_attribute(node.func) in written
            ):
                waiting.append(node.func.attr)
    return list(found.values())


def conditions(script: Script, node: ast.AST, upto: ast.AST | None) -> Iterator[ast.If | ast.IfExp]:
    """The conditions between a node and something around it that decide whether it runs."""
    below = node
    for above in script.ancestors(node):
        if above is upto:
            return
        if isinstance(above, (ast.If, ast.IfExp)) and below is not above.test:
            yield above
        below = above


def loops(script: Script, node: ast.AST) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    """The loops around a node within its function, nearest first."""
    loop = script.loop_of(node)
    while loop is not None:
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            yield loop
        loop = script.loop_of(loop)


def rounds(script: Script, loop: ast.AST | None) -> int | None:
    """How often a loop runs, where that can be known: a literal sequence, or ``range`` of a number."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    over = loop.iter
    if (
        isinstance(over, ast.Call)
        and leaf(over) in {"enumerate", "tqdm", "trange", "track", "reversed", "sorted"}
        and over.args
    ):
        if leaf(over) == "trange":
            return number(script, over.args[0])
        over = over.args[0]
    if isinstance(over, ast.Call) and leaf(over) == "range" and over.args:
        ends = [number(script, end) for end in over.args]
        if len(ends) == 1:
            return ends[0]
        first, last = ends[0], ends[1]
        step = ends[2] if len(ends) > 2 else 1
        return None if first is None or last is None or not step else max(0, -(-(last - first) // step))
    value = script.value(over)
    return len(value) if isinstance(value, (list, tuple, dict, set)) else _displayed(script.definition(over))


def _displayed(expr: ast.expr) -> int | None:
    """The number of elements written out, even where their values are not known."""
    if isinstance(expr, (ast.List, ast.Tuple, ast.Set)) and not any(isinstance(e, ast.Starred) for e in expr.elts):
        return len(expr.elts)
    return None


def is_training_loop(script: Script, loop: ast.AST) -> bool:
    """Whether a loop steps an environment or an optimizer in its own body, not only in one inside it."""
    return any(script.loop_of(call) is loop for call in method_calls(script, *STEPPING))


def trains(script: Script) -> bool:
    """Whether the script learns anything: an SB3 ``learn()``, or gradients."""
    return any(True for _ in method_calls(script, "learn", "backward", "train_on_batch", "fit"))


def imports_any(script: Script, *packages: str) -> bool:
    """Whether one of these packages is imported anywhere in the file."""
    for node in script.imports_nodes:
        if isinstance(node, ast.Import):
            if any(alias.name.split(".")[0] in packages for alias in node.names):
                return True
        elif not node.level and (node.module or "").split(".")[0] in packages:
            return True
    return False
