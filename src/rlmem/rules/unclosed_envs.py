"""Vector environments with workers are started again and again and never closed.

The workers of a ``SubprocVecEnv`` live until ``close()`` is called or the last reference goes. A model, its callbacks and its
environment refer to each other, so that the last reference goes when the garbage collector happens to run: trial after trial the
old workers stay beside the new ones, a whole interpreter each.

In a script, the rule fires for a vector environment with workers that is made in a loop, in an Optuna objective or in a function
that a loop calls, and that nothing closes, returns or keeps. In a running program it fires when workers of three generations or
more live at once.

Example::

    def objective(trial):
        env = make_vec_env("Hopper-v5", n_envs=8, vec_env_cls=SubprocVecEnv)
        model = PPO("MlpPolicy", env, gamma=trial.suggest_float("gamma", 0.9, 0.999)).learn(100_000)
        return evaluate_policy(model, env)[0]

Use instead: ``try: … finally: env.close()``.

Fix: none.

Reference: ikostrikov/pytorch-a2c-ppo-acktr-gail#119; hill-a/stable-baselines#898.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf, method_calls, receiver, rounds
from rlmem.rules.workers import how_many, with_workers, worker_bytes
from rlmem.scripts import Script
from rlmem.scripts.sinks import Sink, sinks
from rlmem.scripts.training import OFF_POLICY, ON_POLICY, Environment
from rlmem.units import format_size

_USERS = {
    *OFF_POLICY,
    *ON_POLICY,
    "evaluate_policy",
    "EvalCallback",
    "MaskableEvalCallback",
    "set_env",
    "load",
    "learn",
}
_HARMLESS = {"method", "read", "dropped", "tested", "filled"}
_WRAPPER = re.compile(r"^Vec\w+$")
#: Workers that start this many seconds apart were started by different calls.
APART_S = 30
GENERATIONS = 3
_TICKS = 100


def check_live(rule: Rule, found: TreeExplanation) -> Iterator[Finding]:
    """Workers of several generations, all alive."""
    workers = sorted((each for each in found.processes[1:] if each.role == "worker"), key=lambda each: each.start)
    generations: list[list[int]] = []
    last: int | None = None
    for each in workers:
        if last is None or each.start - last > APART_S * _TICKS:
            generations.append([])
        generations[-1].append(each.pss_bytes or each.uss_bytes or 0)
        last = each.start
    several = [group for group in generations if len(group) > 1]
    if len(several) < GENERATIONS:
        return
    old = sum(sum(group) for group in several[:-1])
    yield rule.finding(
        f"workers of {len(several)} generations live at once; the older ones hold {format_size(old)}",
        saves_bytes=old or None,
        location="workers",
        remedy="close() the environments of a trial before the next one begins",
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Workers that are started repeatedly and nothing closes."""
    for environment in with_workers(script):
        again = _repeated(script, environment.call)
        if again is None or _closed_nearby(script, again) or _is_kept(script, environment):
            continue
        each = worker_bytes() * environment.n_envs if environment.n_envs and environment.kind == "subproc" else None
        yield rule.finding(
            f"{how_many(environment)} are started in every round of {_named(again)} and never closed",
            place=script.place(environment.call),
            costs_bytes=each,
            costs_per="round",
            remedy="try: … finally: env.close()",
        )


def _repeated(script: Script, call: ast.Call) -> ast.AST | None:
    """What runs a call again and again: a loop, an objective, a function that a loop calls."""
    loop = script.loop_of(call)
    if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        return loop if rounds(script, loop) != 1 and not _leaves(loop) else None
    function = script.function_of(call)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    if any(argument.arg == "trial" for argument in function.args.args):
        return function
    optimized = [
        each for each in method_calls(script, "optimize") if each.args and ast.unparse(each.args[0]) == function.name
    ]
    looped = [each for each in script.callers(function) if isinstance(script.loop_of(each), (ast.For, ast.While))]
    return function if optimized or looped else None


def _leaves(loop: ast.AST) -> bool:
    """A loop that ends in its first round."""
    body = getattr(loop, "body", [])
    return bool(body) and isinstance(body[-1], (ast.Break, ast.Return))


def _closed_nearby(script: Script, again: ast.AST) -> bool:
    """Whether something that sounds like an environment is closed in the same round."""
    for call in method_calls(script, "close", "terminate", "shutdown"):
        owner = receiver(call)
        if (
            again in script.ancestors(call)
            and owner is not None
            and re.search("env", ast.unparse(owner), re.IGNORECASE)
        ):
            return True
    return False


def _is_kept(script: Script, environment: Environment) -> bool:
    """Whether the environment goes anywhere that may close or keep it."""

    def through(call: ast.Call) -> bool:
        return bool(_WRAPPER.match(leaf(call)))

    return not all(_passes(sink) for sink in sinks(script, environment.call, through=through, functions=True))


def _passes(sink: Sink) -> bool:
    if sink.kind == "method":
        return sink.name != "close"
    return sink.kind in _HARMLESS or (sink.kind == "argument" and sink.name.rsplit(".", 1)[-1] in _USERS)


def _named(again: ast.AST) -> str:
    return f"{again.name}()" if isinstance(again, (ast.FunctionDef, ast.AsyncFunctionDef)) else "a loop"
