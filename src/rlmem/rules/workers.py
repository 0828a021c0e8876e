"""What rules ask about worker processes: which environments have them, what runs when a module is imported, what they cost."""

from __future__ import annotations

import ast
from functools import cache
from itertools import takewhile

from rlmem.model.constants import Constants
from rlmem.rules.syntax import names_in
from rlmem.scripts import Script
from rlmem.scripts.training import Environment, environments

_DEEP = 4


@cache
def worker_bytes() -> int:
    """What one more worker of SB3's ``SubprocVecEnv`` adds: an interpreter with torch and SB3."""
    return Constants().find("worker.learner-imports").expected


def with_workers(script: Script) -> tuple[Environment, ...]:
    """The vector environments whose members are processes of their own."""
    return tuple(environment for environment in environments(script) if environment.has_workers)


def is_guarded(script: Script, node: ast.AST) -> bool:
    """Whether a node is under ``if __name__ == "__main__":`` or behind ``if __name__ != "__main__": raise SystemExit``."""
    top = node
    for above in script.ancestors(node):
        if isinstance(above, ast.If) and ("__name__" in names_in(above.test) or _never(script, above, top)):
            return True
        top = above if above is not script.tree else top
    return any(
        isinstance(each, ast.If) and "__name__" in names_in(each.test) and _leaves(script, each.body[-1])
        for each in takewhile(lambda each: each is not top, script.tree.body)
    )


def _never(script: Script, above: ast.If, below: ast.AST) -> bool:
    """Whether a statement is in the branch of ``if False:``."""
    if not isinstance(above.test, ast.Constant):
        return False
    return below in (above.orelse if above.test.value else above.body)


def _leaves(script: Script, statement: ast.stmt) -> bool:
    """Whether a statement ends the program, or the import."""
    if isinstance(statement, ast.Raise):
        return True
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and script.qualified(call.func) in {"sys.exit", "os._exit", "exit", "quit"}


def runs_in_program(script: Script, node: ast.AST, depth: int = _DEEP) -> bool:
    """Whether running the file as a program runs a node: at its top, under its guard, or in a function called there."""
    function = script.function_of(node)
    if function is None:
        return True
    if isinstance(function, ast.Lambda) or not depth:
        return False
    return any(runs_in_program(script, call, depth - 1) for call in script.callers(function))


def runs_at_import(script: Script, node: ast.AST, depth: int = _DEEP) -> bool:
    """Whether importing the module runs a node: at its top, or in a function that is called there."""
    if is_guarded(script, node):
        return False
    function = script.function_of(node)
    if function is None:
        return True
    if isinstance(function, ast.Lambda) or not depth:
        return False
    return any(runs_at_import(script, call, depth - 1) for call in script.callers(function))


def how_many(environment: Environment) -> str:
    """The number of workers in words."""
    return f"{environment.n_envs} workers" if environment.n_envs else "workers"
