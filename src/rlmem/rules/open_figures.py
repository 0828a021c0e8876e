"""Figures are opened again and again and never closed.

pyplot keeps every figure it makes until it is closed, whether a variable still names it or not: a few megabytes for each
plot of a callback, an episode or a rendered frame. It warns from the twenty-first on.

```python
for episode in range(10_000):
    ...
    plt.figure()
    plt.plot(rewards)
    plt.savefig(f"rewards-{episode}.png")
```

In a running process, ``rlmem explain`` counts the figures that are open.

TensorBoard's ``add_figure`` closes the figure it is given, and so does ``Figure(fig, close=True)`` of SB3's logger.

Use instead: ``plt.close(fig)`` after saving, or one figure that is cleared and drawn again.

Fix: none.

Reference: AIS-Bonn/OCVP-object-centric-video-prediction#2; matplotlib/matplotlib#8560.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.syntax import conditions, is_training_loop, leaf, loops, reachable, rounds
from rlmem.scripts import Script

#: pyplot warns about more than 20 itself.
FEW = 20
_CLOSES = {"close", "clf", "show", "cla", "clear"}
_METHODS = ("step", "render", "_on_step", "_on_rollout_end", "_on_rollout_start", "reset", "on_episode_end")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for figures made in a loop that trains, in a callback or in an environment, by a function that closes none."""
    if "matplotlib" not in script.text and "pylab" not in script.text:
        return
    for call in script.calls_of("figure", "subplots", roots=("matplotlib", "pylab")):
        name = script.called(call)
        if name is None or ("pyplot" not in name.dotted and name.root != "pylab"):
            continue
        if name.leaf == "figure" and (call.args or any(each.arg == "num" for each in call.keywords)):
            continue  # a figure of a number or a name is the same one again
        function = script.function_of(call)
        if _closed(script, function or script.tree) or _once(script, call, script.loop_of(call) or function):
            continue
        where = _again_and_again(script, call)
        if where:
            yield rule.finding(
                f"{name.leaf}() opens another figure {where}, and none is closed",
                place=script.place(call),
                costs_per="figure",
                remedy="plt.close(fig) once it is saved, or draw into one figure again",
            )


def _once(script: Script, node: ast.AST, upto: ast.AST | None) -> bool:
    """Whether a condition lets it happen once: there is no figure yet, or it is the one round of many."""
    return any(_tells_once(condition.test) for condition in conditions(script, node, upto))


def _tells_once(test: ast.expr) -> bool:
    nodes = list(ast.walk(test))
    if any(isinstance(node, ast.Mod) for node in nodes):
        return False
    words = {node.id for node in nodes if isinstance(node, ast.Name)}
    words |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    if words & {"hasattr", "getattr"} or any("fig" in word or "init" in word or "ax" in word for word in words):
        return True
    plain = [node.value for node in nodes if isinstance(node, ast.Constant)]
    equal = any(isinstance(node, (ast.Eq, ast.Is)) for node in nodes) and not any(isinstance(v, str) for v in plain)
    return equal or None in plain or any(isinstance(node, ast.Not) for node in nodes)


def _again_and_again(script: Script, call: ast.Call) -> str:
    """In which loop or method the figure is made; empty when it is made a few times."""
    around = list(loops(script, call))
    if around:
        return "in every round of a loop" if _is_long(script, call, around) else ""
    function = script.function_of(call)
    if function is None or isinstance(function, ast.Lambda):
        return ""
    cls = script.class_of(function)
    if cls is not None and script.parent(function) is cls:
        owner = script.is_env(cls) or script.is_wrapper(cls) or script.is_callback(cls)
        return f"at every {function.name}()" if owner and function in reachable(cls, *_METHODS) else ""
    for caller in script.callers(function):
        scope = script.function_of(caller)
        if _once(script, caller, scope) or _closed(script, scope or script.tree):
            continue
        if _is_long(script, caller, list(loops(script, caller))):
            return "in every round of a loop"
    return ""


def _is_long(script: Script, node: ast.AST, around: list[ast.For | ast.AsyncFor | ast.While]) -> bool:
    """Whether a loop opens more figures than a few: by its count, or because it trains."""
    if not around:
        return False
    count = rounds(script, around[0])
    for condition in conditions(script, node, around[0]):
        every = [
            each.right
            for each in ast.walk(condition.test)
            if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)
        ]
        period = script.value(every[0]) if every else None
        if count is not None and isinstance(period, int) and period > 0:
            count //= period
    if count is not None:
        return count > FEW
    inside = [each for each in ast.walk(around[0]) if isinstance(each, (ast.For, ast.While))]
    return any(is_training_loop(script, loop) for loop in (*around, *inside))


def _closed(script: Script, scope: ast.AST) -> bool:
    """Whether a function, or the class around it, closes or clears figures, or shows them and waits."""
    cls = script.class_of(scope) if scope is not script.tree else None
    return any(
        isinstance(node, ast.Call)
        and ((leaf(node) in _CLOSES and _is_figure(script, node)) or _is_logged_and_closed(script, node))
        for node in ast.walk(cls or scope)
    )


def _is_logged_and_closed(script: Script, call: ast.Call) -> bool:
    """TensorBoard's ``add_figure`` closes what it has drawn unless it is told not to, SB3's ``Figure`` when it is told to."""
    if leaf(call) == "add_figure":
        given = script.argument(call, "close", 3)
        return given is None or script.value(given) is not False
    name = script.called(call)
    if leaf(call) != "Figure" or name is None or name.root != "stable_baselines3":
        return False
    given = script.argument(call, "close", 1)
    return given is None or script.value(given) is not False


def _is_figure(script: Script, call: ast.Call) -> bool:
    name = script.called(call)
    if name is not None:
        return name.root in {"matplotlib", "pylab"}
    return isinstance(call.func, ast.Attribute) and any(
        word in ast.unparse(call.func.value).lower() for word in ("fig", "ax", "plt")
    )


def check_live(rule: Rule, tree: TreeExplanation) -> Iterator[Finding]:
    """Fires for more figures than pyplot itself thinks right."""
    for process in tree.processes:
        if process.open_figures is not None and process.open_figures > FEW:
            yield rule.finding(
                f"{process.open_figures} figures of pyplot are open",
                location=f"{process.pid}",
                remedy="plt.close(fig) once a figure is saved, or draw into one figure again",
            )
