"""The replay buffer is as long as the run, so that nothing is ever dropped from it.

``buffer_size=total_timesteps`` is convenient and makes memory a function of how long one trains: a run that is extended
tenfold needs tenfold the memory. Old transitions come from old policies and help little. Brax does it by itself:
``max_replay_size`` is ``num_timesteps`` unless it is given::

    model = SAC("MlpPolicy", env, buffer_size=TIMESTEPS)
    model.learn(TIMESTEPS)

Use instead: a number chosen by what memory there is and how much history the agent needs; 100,000 to 1,000,000 rows are
usual. In a plan it is found where the buffer has as many rows as the run has steps and takes more than a gigabyte.

Fix: none; how many transitions an agent needs is not for a program to say.

Reference: google-deepmind/mujoco#1431 (Brax SAC); DLR-RM/stable-baselines3#37.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.observed import Replay, replays
from rlmem.rules.shapes import number
from rlmem.scripts import Script
from rlmem.units import GIB, format_count, format_size

#: From here on the rows matter even where the observations are small vectors, and where they are not known.
MANY_ROWS, HUGE_ROWS = 1_000_000, 5_000_000
_OFF_POLICY = {"sac", "ddpg", "td3"}


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """A buffer sized by the name of the run's length, or by the same number where that is much; Brax without a size."""
    for store in replays(script):
        length = _length(script, store)
        if store.given is None or length is None:
            continue
        named = _same_name(script, store.given, length)
        steps = number(script, length)
        if not named and (steps is None or steps != store.rows):
            continue
        if (level := _level(store, steps, named=named)) is None:
            continue
        size = store.rows * store.copies * store.seen.least_bytes if store.rows else None
        yield rule.finding(
            f"the buffer is as long as the run ({format_count(steps) if steps else ast.unparse(length)} steps), so nothing "
            "is ever dropped",
            severity=level,
            place=script.place(store.spot(script)),
            costs_bytes=size or None,
            remedy="choose buffer_size by the memory there is, not by the length of the run",
        )
    yield from _brax(rule, script)


def _length(script: Script, store: Replay) -> ast.expr | None:
    """What the only ``learn`` of a model is given; a loop of one's own has ``total_timesteps`` among its options."""
    if store.model is not None:
        given = [script.argument(call, "total_timesteps", 0) for call in store.model.learns]
        return given[0] if len(given) == 1 else None
    wanted = [loop.iter for loop in script.loops if isinstance(loop, ast.For) and isinstance(loop.iter, ast.Call)]
    ranges = [
        call for call in wanted if isinstance(call.func, ast.Name) and call.func.id == "range" and len(call.args) == 1
    ]
    named = [call.args[0] for call in ranges if "step" in ast.unparse(call.args[0]).lower()]
    return named[0] if len(named) == 1 else None


def _same_name(script: Script, one: ast.expr, other: ast.expr) -> bool:
    def plain(expr: ast.expr) -> str:
        if (
            isinstance(expr, ast.Call)
            and isinstance(expr.func, ast.Name)
            and expr.func.id == "int"
            and len(expr.args) == 1
        ):
            expr = expr.args[0]
        return ast.unparse(expr) if isinstance(expr, (ast.Name, ast.Attribute, ast.Subscript)) else ""

    return bool(plain(one)) and plain(one) == plain(other)


def _level(store: Replay, steps: int | None, *, named: bool) -> str | None:
    """Warning where it is gigabytes for sure, information where it may be; ``None`` where it is small or by chance."""
    rows = store.rows if store.rows is not None else steps
    if rows is None:
        return "info"
    if rows * store.copies * store.seen.least_bytes >= GIB or (named and rows >= HUGE_ROWS):
        return "warning"
    return "info" if named and rows >= MANY_ROWS else None


def _brax(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls_of("train", roots=("brax",)):
        name = script.called(call)
        if name is None or not _OFF_POLICY & set(name.dotted.split(".")) or script.has_unknown_arguments(call):
            continue
        if script.argument(call, "max_replay_size") is not None:
            continue
        steps = number(script, script.argument(call, "num_timesteps"))
        if steps is not None and steps < MANY_ROWS:
            continue
        yield rule.finding(
            f"Brax keeps all {format_count(steps) if steps else 'num_timesteps'} transitions because max_replay_size is "
            "not given",
            severity="warning",
            place=script.place(call),
            remedy="pass max_replay_size",
        )


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """A planned buffer with as many rows as the run has steps, which takes more than a gigabyte.

    One with more rows is not made for the length of the run, which fills a part of it.
    """
    spec = subject.spec
    rows, steps = spec.get("buffer_size"), spec.get("total_timesteps")
    if not rows or rows != steps:
        return
    held = subject.plan.ledger.only(device="ram", phase="collect", component="replay").nbytes
    if held < GIB:
        return
    yield rule.finding(
        f"the buffer holds all {format_count(steps)} steps of the run, so nothing is ever dropped: {format_size(held)}",
        location="buffer_size",
        remedy="choose buffer_size by the memory there is, not by the length of the run",
    )
