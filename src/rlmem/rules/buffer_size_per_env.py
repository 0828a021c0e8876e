"""A buffer's size is counted for every environment, so that it is many times what it seems.

SB3 and CleanRL divide ``buffer_size`` by the number of environments: it is the number of transitions in all. ElegantRL
counts rows of a vector of environments, and so do loops that allocate ``(num_envs, buffer_size, …)``: the store holds
``buffer_size × num_envs`` transitions (and times the workers in ElegantRL with several of them)::

    args = Config(AgentSAC, env_class, {"num_envs": 64, "state_dim": 376, "action_dim": 17, ...})
    args.buffer_size = int(1e6)        # 64 million transitions, 94 GiB

Use instead: divide by the number of environments: ``args.buffer_size = 1_000_000 // num_envs``.

In a plan it is found for ElegantRL with more than one environment, where the store takes more than a gigabyte.

Fix: none; it changes what the agent learns from.

Reference: ElegantRL elegantrl/train/run.py; Motphys/MotrixLab#68; pytorch/rl#914 (8 times, about 300 GB).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.arrays import CAPACITY, ArrayCall, arrays
from rlmem.rules.base import Rule
from rlmem.rules.shapes import known, number
from rlmem.scripts import UNKNOWN, Script
from rlmem.units import GIB, format_count, format_size

_CONFIGS = {"Config", "Arguments"}
#: Rows from which the number matters where the size of a row is not known.
MANY_ROWS = 1_000_000


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """ElegantRL's arguments with several environments, and arrays with a row for every environment and step."""
    if "elegantrl" in script.text:
        yield from _elegantrl(rule, script)
    for array in arrays(script):
        if (envs := _per_env(array)) is not None and array.nbytes is not None and array.nbytes >= GIB:
            rows = array.dims[1]
            yield rule.finding(
                f"{array.name} has {format_count(rows)} rows for each of {format_count(envs)} environments: "
                f"{format_count(rows * envs)} in all",
                place=script.place(array.call),
                costs_bytes=array.nbytes,
                remedy="divide the size by the number of environments if it was meant for all of them",
            )


def _per_env(array: ArrayCall) -> int | None:
    """The number of environments of an array ``(num_envs, capacity, …)``."""
    if len(array.dims) < 2 or len(array.exprs) < 2:
        return None
    first, second = ast.unparse(array.exprs[0]).lower(), ast.unparse(array.exprs[1])
    envs, rows = array.dims[:2]
    named = "env" in first and CAPACITY.search(second)
    return envs if named and isinstance(envs, int) and isinstance(rows, int) and envs > 1 else None


def _elegantrl(rule: Rule, script: Script) -> Iterator[Finding]:
    for assign in script.assigns:
        target = assign.targets[0] if isinstance(assign, ast.Assign) else assign.target
        if not isinstance(target, ast.Attribute) or target.attr != "buffer_size" or assign.value is None:
            continue
        made = script.definition(target.value)
        name = script.called(made) if isinstance(made, ast.Call) else None
        if name is None or name.root != "elegantrl" or name.leaf not in _CONFIGS or not isinstance(made, ast.Call):
            continue
        env = known(script, script.argument(made, "env_args", 2))
        facts = env if isinstance(env, dict) else _literal(script, script.argument(made, "env_args", 2))
        envs = _set(script, target.value, "num_envs") or facts.get("num_envs")
        rows = number(script, assign.value)
        if not isinstance(envs, int) or envs < 2 or rows is None or rows * envs <= MANY_ROWS or _divided(assign.value):
            continue
        cost = _bytes(facts, rows * envs)
        yield rule.finding(
            f"buffer_size counts rows for each of {envs} environments: {format_count(rows * envs)} transitions in all",
            severity="info" if cost is not None and cost < GIB else "warning",
            place=script.place(assign.value),
            costs_bytes=cost,
            remedy=f"divide it by {envs}, or make sure that all of them are wanted",
        )


def _divided(expr: ast.expr) -> bool:
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)) for node in ast.walk(expr))


def _literal(script: Script, expr: ast.expr | None) -> dict[object, object]:
    """The entries of a dict that are known, where not all are."""
    found = script.definition(expr) if expr is not None else None
    if not isinstance(found, ast.Dict):
        return {}
    pairs = [(script.value(key), script.value(item)) for key, item in zip(found.keys, found.values, strict=True) if key]
    return {key: item for key, item in pairs if key is not UNKNOWN and item is not UNKNOWN}


def _set(script: Script, owner: ast.expr, name: str) -> int | None:
    """What ``args.name`` is set to elsewhere."""
    for assign in script.assigns:
        target = assign.targets[0] if isinstance(assign, ast.Assign) else assign.target
        if isinstance(target, ast.Attribute) and target.attr == name and ast.dump(target.value) == ast.dump(owner):
            return number(script, assign.value)
    return None


def _bytes(facts: dict[object, object], rows: int) -> int | None:
    """States, actions, and reward, done and value in float32."""
    state, action = facts.get("state_dim"), facts.get("action_dim")
    if not isinstance(state, int) or not isinstance(action, int):
        return None
    stored = 1 if facts.get("if_discrete") is True else action
    return rows * (state + stored + 2) * 4


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """ElegantRL with several environments and a store of gigabytes."""
    spec = subject.spec
    envs = spec.get("n_envs", 1)
    if spec.text("framework.name") != "elegantrl" or "buffer_size" not in spec or envs < 2:
        return
    held = sum(
        subject.plan.ledger.only(device=device, phase="collect", component="replay").nbytes
        for device in ("ram", "vram")
    )
    if held < GIB:
        return
    rows = spec.count("buffer_size")
    changes = {"buffer_size": max(1, rows // envs)}
    yield rule.finding(
        f"buffer_size counts rows for each of {envs} environments: {format_count(rows * envs)} transitions, "
        f"{format_size(held)}",
        severity="info",
        location="buffer_size",
        saves_bytes=subject.saving(changes) or None,
        remedy=f"buffer_size={format_count(rows // envs)} keeps {format_count(rows)} in all",
        changes=changes,
    )
