"""Observations are collected in a list and then stacked.

``torch.stack`` copies the list into a new tensor while the list still lives: two copies of every observation. A list
of small tensors also pays for every object: a transition of a few hundred bytes takes well over a thousand.

In a script, the rule looks for observations of an environment that are appended to a list in the loop that steps it, and a
list that ``torch.stack``, ``np.array`` or the like turns into one array. Small observations and short rollouts cost little:
it is a warning only where the sizes are known and come to 256 MiB.

Example::

    for _ in range(n_steps):
        observations.append(obs)
        obs, reward, done, truncated, info = env.step(action)
    batch = torch.stack(observations)

Use instead: allocate the rollout once and write rows into it.

Fix: none.

Reference: thu-ml/tianshou#225; vwxyzjn/cleanrl#35.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.observed import of_environment
from rlmem.rules.syntax import leaf, method_calls, receiver, rounds
from rlmem.scripts import Script
from rlmem.scripts.training import environment_of
from rlmem.units import MIB

LARGE_BYTES = 256 * MIB
_STACKS = {"stack", "array", "asarray", "vstack", "cat", "concatenate", "tensor", "as_tensor", "FloatTensor"}
_ENV = re.compile(r"env", re.IGNORECASE)
_OBSERVATION = re.compile(r"^(next_|new_|last_|prev_)?(obs|observation|state|frame|image|screen|pixels)s?(_t|_next)?$")


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires for both list forms."""
    store = subject.spec.get("rollout.store", "array")
    if store == "array":
        return
    changes = {"rollout.store": "array"}
    saves = subject.saving(changes)
    what = (
        "cloned into a list and then stacked, two copies"
        if store == "list-then-stack"
        else "kept as a list of small tensors"
    )
    yield rule.finding(
        f"the rollout is {what}",
        saves_bytes=saves or None,
        location="rollout.store",
        remedy="allocate the rollout once and write rows into it",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Observations appended where an environment is stepped, in a list that becomes one array."""
    stacked = {
        ast.unparse(call.args[0])
        for call in script.calls
        if leaf(call) in _STACKS and call.args and isinstance(call.args[0], (ast.Name, ast.Attribute))
    }
    if not stacked:
        return
    for call in method_calls(script, "append"):
        where = receiver(call)
        step = _step_beside(script, call)
        if where is None or step is None or len(call.args) != 1 or ast.unparse(where) not in stacked:
            continue
        given = _bare(call.args[0])
        made = script.made_by(where)
        bounded = made is not None and made.leaf == "deque"  # the last few frames, not a rollout
        if isinstance(given, ast.Name) and _OBSERVATION.match(given.id) and not bounded:
            yield _finding(rule, script, call, step)


def _finding(rule: Rule, script: Script, call: ast.Call, step: ast.Call) -> Finding:
    where, owner = receiver(call), receiver(step)
    environment = environment_of(script, owner) if owner is not None else None
    seen = of_environment(script, environment) if environment else None
    each = seen.nbytes if seen is not None and seen.nbytes else None
    steps = rounds(script, script.loop_of(call))
    whole = each * steps * (environment.n_envs or 1) if each and steps and environment else None
    large = whole is not None and whole >= LARGE_BYTES
    return rule.finding(
        f"{ast.unparse(where) if where is not None else 'a list'} collects observations and is then copied into one array",
        severity="warning" if large else "info",
        place=script.place(call),
        costs_bytes=whole,
        remedy="allocate the rollout once (np.zeros((n_steps, n_envs, …), dtype=…)) and write rows into it",
    )


def _step_beside(script: Script, call: ast.Call) -> ast.Call | None:
    """The call that steps an environment in the same loop."""
    loop = script.loop_of(call)
    if loop is None:
        return None
    for step in method_calls(script, "step"):
        owner = receiver(step)
        if script.loop_of(step) is loop and owner is not None and _ENV.search(ast.unparse(owner)):
            return step
    return None


def _bare(expr: ast.expr) -> ast.expr:
    """An observation under ``.copy()``, ``torch.tensor(…)`` and the like."""
    while isinstance(expr, ast.Call):
        inner = receiver(expr) if leaf(expr) in {"copy", "clone", "to", "cpu", "float", "detach", "numpy"} else None
        if inner is None:
            inner = expr.args[0] if expr.args and leaf(expr) in _STACKS else None
        if inner is None:
            break
        expr = inner
    return expr
