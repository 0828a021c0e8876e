"""Models are trained one after the other in one process, and the old ones stay.

An SB3 model, its environment, its callbacks and its logger refer to each other in circles. ``del model`` frees none of it;
Python's cycle collector does, when it happens to run, and large arrays do not make it run. Five tiny PPO runs in a row took
877 MB, and 386 MB with ``gc.collect()`` between them; four of five deleted models were still alive.

```python
for seed in range(10):
    model = PPO("MlpPolicy", "CartPole-v1", seed=seed)
    model.learn(100_000)
```

In a running process, ``rlmem explain`` counts the models that are alive.

Use instead: ``env.close(); del model; gc.collect()`` at the end of each round, ``study.optimize(…, gc_after_trial=True)``, or
a process for each run.

Fix: safe for ``study.optimize``: ``gc_after_trial=True``.

Reference: DLR-RM/stable-baselines3#1966, #2192; optuna/optuna#1178, #3050; notadamking/RLTrader#53.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf, loops, method_calls, names_in, rounds
from rlmem.scripts import Script
from rlmem.scripts.training import Model, models

FEW = 2
#: More models alive than the ones a program compares side by side.
ALIVE = 3
_DEEP = 2


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for models built and trained in a loop, and for studies whose objective trains, without a collection."""
    if ".learn(" not in script.text:
        return
    trained = [model for model in models(script) if model.learns]
    yield from _in_loops(rule, script, trained)
    if "optuna" in script.text:
        yield from _studies(rule, script, trained)


def _in_loops(rule: Rule, script: Script, trained: list[Model]) -> Iterator[Finding]:
    for model in trained:
        node, loop = _repeated(script, model.call)
        if (
            loop is None
            or _is_short(script, loop)
            or _collects(script, loop)
            or _collects(script, script.function_of(model.call))
        ):
            continue
        if not any(loop in script.ancestors(learn) for learn in model.learns) and node is model.call:
            continue
        if _leaves(loop):
            continue
        yield rule.finding(
            f"a new {model.algorithm} is built and trained in every round, and the old ones are not collected",
            place=script.place(node),
            costs_per="round",
            remedy="env.close(), del model and gc.collect() at the end of each round, or a process for each run",
        )


def _repeated(script: Script, call: ast.Call) -> tuple[ast.Call, ast.AST | None]:
    """The loop that builds a model again: around its construction, or around the only call of its function."""
    around = next(iter(loops(script, call)), None)
    if around is not None:
        return call, around
    function = script.function_of(call)
    callers = script.callers(function) if function is not None else ()
    for caller in callers:
        around = next(iter(loops(script, caller)), None)
        if around is not None:
            return caller, around
    return call, None


def _is_short(script: Script, loop: ast.AST) -> bool:
    count = rounds(script, loop)
    return count is not None and count <= FEW


def _leaves(loop: ast.AST) -> bool:
    """Whether the loop retries until it works, or hands each round to a process of its own."""
    nodes = list(ast.walk(loop))
    return any(isinstance(node, ast.Break) for node in nodes) or any(
        isinstance(node, ast.Call) and leaf(node) in {"Process", "submit", "apply_async", "Pool", "remote", "fork"}
        for node in nodes
    )


def _collects(script: Script, scope: ast.AST | None, depth: int = _DEEP) -> bool:
    """Whether the cycle collector is called here, or by a function of the file that is called here."""
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call)] if scope is not None else []
    if any(_is_collection(script, call) for call in calls):
        return True
    return depth > 0 and any(
        _collects(script, function, depth - 1)
        for function in {script.function_called(call) for call in calls}
        if function is not None and function is not scope
    )


def _is_collection(script: Script, call: ast.Call) -> bool:
    name = script.called(call)
    return leaf(call) == "collect" and ("gc" in names_in(call.func) or (name is not None and name.root == "gc"))


def _studies(rule: Rule, script: Script, trained: list[Model]) -> Iterator[Finding]:
    functions = {
        function for model in trained for function in (script.function_of(model.call),) if function is not None
    }
    learning = {script.function_of(call) for call in method_calls(script, "learn")}
    for call in method_calls(script, "optimize"):
        objective = script.argument(call, "func", 0)
        if (
            objective is None
            or script.has_unknown_arguments(call)
            or script.argument(call, "gc_after_trial", 5) is not None
        ):
            continue
        function = _objective(script, objective)
        if function is None or function not in functions | learning or _collects(script, function):
            continue
        yield rule.finding(
            "trials train one after the other, and optuna does not collect what they leave",
            place=script.place(call),
            costs_per="trial",
            remedy="study.optimize(…, gc_after_trial=True)",
            fix=Fix(title="collect after each trial", edits=(script.add_argument(call, "gc_after_trial=True"),)),
        )


def _objective(script: Script, expr: ast.expr) -> ast.AST | None:
    """The function behind ``objective`` and ``lambda trial: objective(trial, …)``."""
    if isinstance(expr, ast.Lambda) and isinstance(expr.body, ast.Call):
        return script.function_called(expr.body)
    found = [f for f in script.functions if isinstance(expr, ast.Name) and getattr(f, "name", None) == expr.id]
    return found[0] if len(found) == 1 else None


def check_live(rule: Rule, tree: TreeExplanation) -> Iterator[Finding]:
    """Fires when several models are alive in one process."""
    for process in tree.processes:
        if process.models_alive is not None and process.models_alive >= ALIVE:
            yield rule.finding(
                f"{process.models_alive} models of SB3 are alive in process {process.pid}",
                location=f"{process.pid}",
                remedy="unless all of them are in use: env.close(), del model and gc.collect() after each run",
            )
