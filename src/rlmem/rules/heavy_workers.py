"""Worker processes around environments that do not need them, or started where they cannot start.

Every worker of a ``SubprocVecEnv`` is an interpreter of its own that imports the script's modules again: with torch and SB3
about 160 MiB each, more with a CUDA build. A step of CartPole takes a few microseconds, less than sending it through a pipe: in
one process such environments are smaller *and* faster. (``AsyncVectorEnv`` forks on Linux, where most of that is shared.)

A script that starts a ``SubprocVecEnv`` as soon as it is imported does not work: each worker imports the script again and
would start workers itself. It ends with ``ConnectionResetError`` or ``freeze_support``.

Example::

    env = make_vec_env("CartPole-v1", n_envs=16, vec_env_cls=SubprocVecEnv)

Use instead: ``DummyVecEnv`` (the default of ``make_vec_env``) for cheap environments; ``if __name__ == "__main__":`` around the
code that starts workers.

Fix: none.

Reference: thu-ml/tianshou#297, #259; Farama-Foundation/Metaworld#11; the missing guard was tried with SB3 2.9.2 on Linux.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.workers import how_many, runs_at_import, with_workers, worker_bytes
from rlmem.scripts import UNKNOWN, Script
from rlmem.scripts.training import Environment
from rlmem.units import MIB, format_size

#: Environments whose step takes microseconds.
_CHEAP = re.compile(
    r"^(CartPole|Pendulum|MountainCar(Continuous)?|Acrobot|FrozenLake8x8|FrozenLake|Taxi|CliffWalking|Blackjack)-v\d+$"
)
#: Cheap as well, though a step of their physics may be worth a process to some.
_LIGHT = re.compile(r"^(LunarLander(Continuous)?|BipedalWalker)-v\d+$")
#: Fewer workers are a matter of taste.
MANY = 4
WORTH_BYTES = 512 * MIB


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when the processes around small environments take more than half a gigabyte."""
    spec = subject.spec
    if spec.get("vec_env") != "subproc" or spec.count("n_envs") < MANY or "env.bytes" in spec:
        return
    changes = {"vec_env": "dummy"}
    saves = subject.saving(changes)
    if saves >= WORTH_BYTES:
        yield rule.finding(
            f"{spec.count('n_envs')} worker processes, each an interpreter with its imports",
            severity="info",
            saves_bytes=saves,
            location="vec_env",
            remedy="DummyVecEnv if a step takes less than about a tenth of a millisecond; else fewer workers",
            changes=changes,
        )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Workers around cheap environments, and workers that start at import."""
    for environment in with_workers(script):
        if environment.kind == "subproc" and _starts_at_import(script, environment):
            yield rule.finding(
                "workers start when the module is imported, and every worker imports it again: they cannot start",
                severity="error",
                place=script.place(environment.call),
                remedy='put the code that trains under if __name__ == "__main__":',
            )
        elif environment.id is not None:
            yield from _around_cheap(rule, script, environment)


def _around_cheap(rule: Rule, script: Script, environment: Environment) -> Iterator[Finding]:
    name, count = environment.id or "", environment.n_envs
    cheap, light = bool(_CHEAP.match(name)), bool(_LIGHT.match(name))
    if not (cheap or light) or (count is not None and count < MANY):
        return
    forked = environment.kind != "subproc"
    each = worker_bytes()
    costs = f", about {format_size(each)} each" if not forked else ""
    yield rule.finding(
        f"{how_many(environment)} around {name}, whose step takes less time than sending it{costs}",
        severity="warning" if cheap and not forked and count is not None else "info",
        place=script.place(environment.call),
        costs_bytes=None if forked or count is None else each * count,
        remedy="DummyVecEnv" if not forked else "SyncVectorEnv",
    )


def _starts_at_import(script: Script, environment: Environment) -> bool:
    if script.path.endswith(".ipynb") or not runs_at_import(script, environment.call):
        return False
    return _start_method(script, environment.call) not in ("fork", UNKNOWN)


def _start_method(script: Script, call: ast.Call) -> object:
    """The start method that is given; ``None`` for the default, which is not fork."""
    if script.has_unknown_arguments(call):
        return UNKNOWN
    name = script.called(call)
    if name is not None and name.leaf == "SubprocVecEnv":
        given = script.argument(call, "start_method", 1)
        return None if given is None else script.value(given)
    options = script.argument(call, "vec_env_kwargs", 7)
    if options is None:
        return None
    known = script.value(options)
    return known.get("start_method") if isinstance(known, dict) else UNKNOWN
