"""How far the loops of the program are: where each ``for … in range(…)`` and ``while a < b`` stands, and where it ends."""

import ast

from . import roots
from .growing import evaluate, frames, parsed

#: Functions around a range that leave it as long as it is.
AROUND = {"tqdm", "trange", "enumerate", "track", "iter", "list", "prange"}


def loops():
    """``[name, value, end]`` of every loop around the point where the program is, the outermost first."""
    found = []
    for frame in reversed(frames()):
        tree = parsed(frame.f_code.co_filename)
        scope = {**frame.f_globals, **roots.variables(frame)}
        for node in _around(tree, frame) if tree is not None else ():
            place = _of_for(node, scope) if isinstance(node, ast.For) else _of_while(node, scope)
            if place is not None:
                found.append(place)
    return found


def _around(tree, frame):
    """Loops of the frame's own function around its line."""
    line, name = frame.f_lineno, frame.f_code.co_name
    spans = [
        node
        for node in ast.walk(tree)
        if hasattr(node, "lineno") and node.lineno <= line <= (getattr(node, "end_lineno", None) or 0)
    ]
    functions = [node for node in spans if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    inner = max((node.lineno for node in functions if node.name == name), default=0)
    if name != "<module>" and not inner:
        return []
    within = [node for node in spans if isinstance(node, (ast.For, ast.While)) and node.lineno >= inner]
    if name == "<module>":
        within = [node for node in within if not any(f.lineno < node.lineno for f in functions)]
    return sorted(within, key=lambda node: node.lineno)


def _of_for(node, scope):
    call, target = node.iter, node.target
    while isinstance(call, ast.Call) and _word(call) in AROUND and call.args:
        if _word(call) == "enumerate" and isinstance(target, ast.Tuple):
            target = target.elts[0]
        if _word(call) in ("trange", "prange"):
            break
        call = call.args[0]
    if not (
        isinstance(call, ast.Call) and _word(call) in ("range", "trange", "prange") and isinstance(target, ast.Name)
    ):
        return None
    numbers = [evaluate(part, scope=scope) for part in call.args]
    if not numbers or None in numbers or target.id not in scope or not isinstance(scope[target.id], int):
        return None
    return [target.id, scope[target.id], numbers[1] if len(numbers) > 1 else numbers[0]]


def _of_while(node, scope):
    for test in ast.walk(node.test):
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            left, right = (evaluate(part, scope=scope) for part in (test.left, test.comparators[0]))
            if left is None or right is None:
                continue
            name = ast.unparse(test.left) if hasattr(ast, "unparse") else "while"
            if isinstance(test.ops[0], (ast.Lt, ast.LtE, ast.NotEq)):
                return [name, left, right]
            if isinstance(test.ops[0], (ast.Gt, ast.GtE)):
                return [name, -left, -right]
    return None


def _word(call):
    return getattr(call.func, "id", None) or getattr(call.func, "attr", None)
