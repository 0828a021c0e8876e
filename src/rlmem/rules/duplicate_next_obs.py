"""The replay buffer stores every observation twice.

``next_observations[t]`` is ``observations[t + 1]`` everywhere except at episode ends, and still has an array of its
own. Storing it once halves the observation bytes.

Use instead: ``from rlmem.sb3 import CompactReplayBuffer``, then ``replay_buffer_class=CompactReplayBuffer`` (in a loop
of your own, in place of SB3's class). It keeps the true final observation of every episode, takes Dict observations,
n-step, prioritised and hindsight replay, and returns the same bits as SB3's buffers with the same seed.
``replay_buffer_kwargs={"codec": "auto"}`` compresses what compresses; how much that is depends on the data, so a
plan of your script samples it, and a description alone cannot say.

In a script it is found where SB3 trains off-policy on images (vectors matter less, and a plan judges them), and where a
class of yours allocates the same array twice::

    class ReplayBuffer:
        def __init__(self, capacity=100_000):
            self.obs = np.zeros((capacity, 84, 84, 3), dtype=np.uint8)
            self.next_obs = np.zeros((capacity, 84, 84, 3), dtype=np.uint8)  # the same images again

There, ``rlmem.buffers.Replay`` keeps each observation once: it finds out which next observation is the observation of a
later row and keeps the others, and is told how many environments write to it (``n_envs``) and over how many steps returns go
(``n_steps``). Taking row ``i + 1`` by hand is right only where one environment writes its steps in order, one row each, and
the last observation of every episode has a row of its own.

Rows that the run never writes do not count, where the script says how long it is. A store that is overwritten at random, or
that keeps what comes several steps later, is left alone.

SB3's own ``optimize_memory_usage=True`` with ``handle_timeout_termination=False`` saves about as much for plain Box
observations, but every truncated transition then gets the next episode's first observation as its successor: wrong
targets at every time limit. SB3 refuses it for Dict observations, n-step and HER.

Fix: unsafe; it names CompactReplayBuffer in the model's constructor, which then needs rlmem where it trains. None for a
class of your own.

Reference: DLR-RM/stable-baselines3#37, #934; rail-berkeley/softlearning#65.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.frameworks.sb3.compact import depths
from rlmem.rules import once
from rlmem.rules.arrays import ArrayCall, arrays, last_name
from rlmem.rules.base import Rule
from rlmem.rules.lengths import run_steps
from rlmem.rules.memories import dotted
from rlmem.rules.observed import COMPACT_BYTES, SMALLEST_IMAGE_BYTES, WORTH_BYTES, compact_fix, replays, severity
from rlmem.rules.shapes import is_image
from rlmem.scripts import Script
from rlmem.units import format_count

_NEXT = re.compile(
    r"next|new_|_prime|tp1|(obs|observations?|states?|s|o)_?2$|(obs|states?|observations?|s)_$|_n$", re.I
)
#: A store that knows of discounting sums rewards over several steps.
_SEVERAL = re.compile(r"n_?step|multi_?step|look_?ahead|gamma|discount", re.I)
#: How rows that are not in order get their places.
_RANDOM = re.compile(r"rand|choice|sample|argmin|argmax|heap", re.I)
_THIS = re.compile(r"obs|state|frame|image|screen|pixel|^s$|^o$|^s_", re.I)


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when the ledger has an array of next observations; stacks and windows have rules of their own."""
    if not subject.plan.ledger.only(component="replay.next_observations").entries or depths(subject.spec):
        return
    swap = once.swap_for(subject)
    saves = subject.saving(once.CHANGES)
    if swap is None or saves < WORTH_BYTES:
        return
    yield rule.finding(
        "next observations are stored in an array of their own",
        saves_bytes=saves,
        location="replay.next_observations",
        remedy=once.remedy(subject, swap),
        changes=once.CHANGES,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """SB3's buffers of images, and classes with two arrays of the same shape, one of them for what comes next."""
    for store in replays(script):
        if not store.twice or not store.seen.image or store.seen.stack > 1 or store.filled is None:
            continue
        cost = store.filled * store.seen.least_bytes
        gain = store.gains(cost)
        if not gain:
            continue
        yield rule.finding(
            f"{store.owner} keeps every image twice: next observations have an array of their own for "
            f"{format_count(store.filled)} rows",
            severity=severity(gain),
            place=script.place(store.call),
            costs_bytes=store.sized(cost),
            remedy=f"{store.instead} keeps each once",
            fix=compact_fix(script, store.model),
        )
    yield from _by_hand(rule, script)


def _by_hand(rule: Rule, script: Script) -> Iterator[Finding]:
    stores = [array for array in arrays(script) if array.is_store]
    for second in stores:
        first = next((one for one in stores if _pair(one, second)), None)
        if first is None or not _NEXT.search(second.name) or _several_steps(script, second.owner):
            continue
        if not _in_order(script, second):
            continue
        size = second.filled_bytes(run_steps(script))
        images = second.dtype == "uint8" or is_image(second.row_shape)
        if (size is None and not images) or (size is not None and size < COMPACT_BYTES + WORTH_BYTES):
            continue
        yield rule.finding(
            f"{second.name} is as large as {first.name}, and keeps the observations that follow those a second time",
            severity=severity(size if size is not None else (second.rows or 0) * SMALLEST_IMAGE_BYTES),
            place=script.place(second.call),
            costs_bytes=size,
            remedy="rlmem.buffers.Replay keeps each once, however environments and episodes lie in it",
        )


def _in_order(script: Script, array: ArrayCall) -> bool:
    """Whether rows are written one after the other; rows that are overwritten at random have no neighbours."""
    for assign in script.assigns:
        for target in assign.targets if isinstance(assign, ast.Assign) else [assign.target]:
            if not isinstance(target, ast.Subscript) or script.class_of(assign) is not array.owner:
                continue
            named = last_name(target.value) == array.name
            if named and any(_RANDOM.search(ast.unparse(value)) for value in _values(script, target.slice)):
                return False
    return True


def _values(script: Script, index: ast.expr) -> Iterator[ast.expr]:
    """An index, and everything its function assigns to it."""
    yield index
    function = script.function_of(index)
    for assign in script.assigns:
        if assign.value is not None and function is not None and script.function_of(assign) is function:
            targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
            if any(dotted(target) and dotted(target) == dotted(index) for target in targets):
                yield assign.value


def _several_steps(script: Script, owner: ast.AST | None) -> bool:
    """An n-step buffer: what comes next is n rows later, and rewards are sums."""
    return owner is not None and bool(_SEVERAL.search(script.segment(owner)))


def _pair(first: ArrayCall, second: ArrayCall) -> bool:
    named = _THIS.search(first.name) and not _NEXT.search(first.name)
    return bool(named) and first is not second and first.owner is second.owner and first.like(second)
