"""How long a run lasts, as far as a script says: what its models learn, and the loops that step an environment."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from rlmem.rules.memories import dotted
from rlmem.rules.shapes import number
from rlmem.rules.syntax import leaf, loops, method_calls, rounds
from rlmem.scripts import Script
from rlmem.scripts.training import Model, models

#: Functions and files that watch a policy rather than train it.
WATCHING = re.compile(
    r"(?<![a-z])(eval|test|play|record|demo|watch|visuali[sz]|render|enjoy|gif|video|replay_ep|show|inference|benchmark)",
    re.IGNORECASE,
)
_ENV = re.compile(r"env|game|world|simulat", re.IGNORECASE)
_DEEP = 4


def env_steps(script: Script) -> Iterator[ast.Call]:
    """Calls of ``env.step(action)`` outside environments and wrappers, by the name of the receiver."""
    for call in method_calls(script, "step"):
        receiver = dotted(call.func.value).rsplit(".", maxsplit=1)[-1] if isinstance(call.func, ast.Attribute) else ""
        if not (call.args or call.keywords) or not _ENV.search(receiver):
            continue
        owner = script.class_of(call)
        if owner is None or not (script.is_env(owner) or script.is_wrapper(owner)):
            yield call


def watches(script: Script, node: ast.AST) -> bool:
    """Whether a node stands in a function that evaluates, plays or records."""
    above = (each for each in script.ancestors(node) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return any(WATCHING.search(function.name) for function in above)


def learned_steps(script: Script, model: Model) -> int | None:
    """The steps that a model is asked to learn for, in all; ``None`` when that is not known."""
    total = 0
    made = script.function_of(model.call)
    around = set(script.ancestors(model.call))
    for call in model.learns:
        steps = number(script, script.argument(call, "total_timesteps", 0))
        if steps is None or script.function_of(call) is not made:
            return None
        for loop in loops(script, call):
            if loop in around:
                break
            again = times(script, loop)
            if again is None:
                return None
            steps *= again
        total += steps
    return total if model.learns else None


def learns_once(script: Script) -> bool:
    """Whether a script is seen to call ``learn`` once on each model: what the first call asks for is the whole run."""
    calls = tuple(method_calls(script, "learn"))
    if len(calls) != 1:
        return False
    model = next((each for each in models(script) if calls[0] in each.learns), None)
    if model is not None and script.function_of(calls[0]) is script.function_of(model.call):
        around = set(script.ancestors(model.call))
        return all(loop in around for loop in loops(script, calls[0]))
    return steps_at(script, calls[0]) == 1


@lru_cache(maxsize=2)
def run_steps(script: Script) -> int | None:
    """The most steps that the loops of a script can take, where every one of them has an end that is known."""
    counts = [steps_at(script, call) for call in env_steps(script) if not watches(script, call)]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def steps_at(script: Script, step: ast.AST, depth: int = _DEEP) -> int | None:
    """How often a node runs at most: the rounds of the loops around it, and around the only call of its function."""
    count = 1
    for loop in loops(script, step):
        limit = counted(script, loop, step)
        if limit is not None:
            count = limit
            continue
        again = times(script, loop)
        if again is None:
            return None
        count *= again
    function = script.function_of(step)
    if function is None:
        return count
    if isinstance(function, ast.Lambda) or depth == 0:
        return None
    owner = script.class_of(function)
    calls = script.callers(function) if owner is None else tuple(method_calls(script, function.name))
    if len(calls) > 1 or (owner is not None and not calls):
        return None
    before = steps_at(script, calls[0], depth - 1) if calls else 1
    return None if before is None else count * before


def times(script: Script, loop: ast.AST) -> int | None:
    """How often a loop runs at most: ``range(…)`` of a known number, or ``while x < limit`` that counts in its body."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        known = rounds(script, loop)
        over = loop.iter
        while isinstance(over, ast.Call) and leaf(over) in {"tqdm", "enumerate"} and over.args:
            over = over.args[0]
        counts = isinstance(over, ast.Call) and leaf(over) in {"range", "trange"} and len(over.args) in (1, 2)
        return known if known is not None or not counts else number(script, over.args[-1])  # type: ignore[attr-defined]
    return counted(script, loop, None)


def counted(script: Script, loop: ast.AST, step: ast.AST | None) -> int | None:
    """The limit of ``while x < limit`` where ``x`` goes up by one beside a step, or else in the loop's own body."""
    test = loop.test if isinstance(loop, ast.While) else None
    tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
    inner = script.loop_of(step) if step is not None else loop
    for each in tests:
        match each:
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE() | ast.NotEq()], comparators=[right]) if dotted(left):
                limit = number(script, right)
                if limit is not None and any(
                    dotted(grown.target) == dotted(left) and script.loop_of(grown) is inner
                    for grown in script.augassigns
                    if isinstance(grown.op, ast.Add) and script.value(grown.value) == 1
                ):
                    return limit
    return None
