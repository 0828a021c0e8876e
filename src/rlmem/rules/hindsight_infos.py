"""Hindsight replay keeps an info dict for every slot of the buffer.

SB3's HerReplayBuffer allocates an array of Python dicts, one for each transition, when it is built: 164 MB for a million
slots even when all of them are empty. With ``copy_info_dict=True`` every step's infos are kept there too, with
whatever the environment puts into them: hundreds of bytes to kilobytes a transition::

    SAC("MultiInputPolicy", env, replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs=dict(copy_info_dict=True))

Use instead: ``copy_info_dict=False`` (the default) unless ``compute_reward`` reads the infos; a smaller buffer;
``replay_buffer_class=CompactHerReplayBuffer`` of ``rlmem.sb3``, which keeps no dict where there is no info.

Fix: unsafe; it sets ``copy_info_dict=False``, and an environment whose ``compute_reward`` reads the infos needs them.

Reference: SB3 2.9.2 her_replay_buffer.py; DLR-RM/stable-baselines3#704, #1031; measured: 164 bytes a slot.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules import once
from rlmem.rules.base import Rule
from rlmem.rules.observed import WORTH_BYTES, replay
from rlmem.scripts import Script
from rlmem.scripts.training import SB3, models
from rlmem.units import format_count

#: Bytes of an empty dict and its place in the array: RSS over a million slots, SB3 2.9.2, CPython 3.11.
SLOT_BYTES = 164
_COPY = "copy_info_dict"


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Infos copied into every slot, and dicts for a million slots or more."""
    for call in script.calls_of("HerReplayBuffer", roots=SB3):
        given = script.argument(call, _COPY)
        if given is not None and script.value(given) is True:
            yield _copied(rule, script, given, None)
    for model in models(script):
        chosen = model.argument("replay_buffer_class")
        if not model.off_policy or chosen is None or not (script.qualified(chosen) or "").endswith(".HerReplayBuffer"):
            continue
        rows = replay(script, model).rows
        given = _option(script, model.argument("replay_buffer_kwargs"))
        cost = rows * SLOT_BYTES if rows is not None else None
        if given is not None and script.value(given) is True:
            yield _copied(rule, script, given, cost)
        elif cost is not None and cost >= WORTH_BYTES:
            yield rule.finding(
                f"HerReplayBuffer builds {format_count(rows or 0)} dicts before the first step",
                severity="info",
                place=script.place(chosen),
                costs_bytes=cost,
                remedy="CompactHerReplayBuffer of rlmem.sb3 keeps no dict where there is no info; or a smaller buffer_size",
            )


def _option(script: Script, expr: ast.expr | None) -> ast.expr | None:
    """The value of the option in a model's ``replay_buffer_kwargs``."""
    found = script.definition(expr) if expr is not None else None
    if isinstance(found, ast.Dict):
        pairs = zip(found.keys, found.values, strict=True)
        return next((item for key, item in pairs if key is not None and script.value(key) == _COPY), None)
    return script.argument(found, _COPY) if isinstance(found, ast.Call) else None


def _copied(rule: Rule, script: Script, given: ast.expr, cost: int | None) -> Finding:
    literal = isinstance(given, ast.Constant) and script.parent(given) is not None
    return rule.finding(
        "hindsight replay copies the info dict of every transition and keeps it",
        place=script.place(given),
        costs_bytes=cost,
        remedy="drop copy_info_dict=True unless compute_reward reads the infos",
        fix=Fix(title="do not copy infos", edits=(script.edit(given, "False"),), safety="unsafe") if literal else None,
    )


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """A planned hindsight buffer whose dicts are worth a word."""
    held = subject.plan.ledger.only(device="ram", phase="collect", component="replay.infos").nbytes
    if subject.spec.get("replay.kind") != "her" or held < WORTH_BYTES:
        return
    yield rule.finding(
        f"HerReplayBuffer builds {format_count(subject.spec.count('buffer_size'))} dicts before the first step",
        severity="info",
        location="replay.infos",
        costs_bytes=held,
        remedy=swap.sentence if (swap := once.swap_for(subject)) else "a smaller buffer_size",
    )
