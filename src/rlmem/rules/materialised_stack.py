"""Stacked frames are stored stacked.

With a stack of k frames, k − 1 of them are in the neighbouring rows already, so a stacked observation stores each
frame k times (2k times in a replay buffer with next observations).

Use instead: a buffer that keeps each frame once and stacks when a batch is taken. For SB3 that is
``replay_buffer_class=CompactReplayBuffer`` or ``rollout_buffer_class=CompactRolloutBuffer`` of ``rlmem.sb3``: stacks of
VecFrameStack and of Gymnasium's FrameStackObservation are recognised from the data, resets and padding are exact.

In a script it is found where an off-policy algorithm of SB3 trains on stacked frames, where SB3's ReplayBuffer is built
by hand over a stacking environment (as CleanRL does), and in a store of your own that has a row for the whole stack::

    env = VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=8), n_stack=4)
    model = DQN("CnnPolicy", env, buffer_size=100_000)      # 5.3 GiB; 0.7 GiB with every frame once

Rows that the run never writes do not count. For a store of your own it is a warning where the script shows that stacks
overlap: a stacking wrapper, a short deque of frames, ``stack[:-1] = stack[1:]``.

Fix: unsafe; it names CompactReplayBuffer in the model's constructor, which then needs rlmem where it trains. None for a
store of your own.

Reference: openai/baselines#295; DLR-RM/stable-baselines3#37; chainer/chainerrl#443.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import prod

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.frameworks.sb3.compact import depths, is_compact
from rlmem.rules import once
from rlmem.rules.arrays import arrays
from rlmem.rules.base import Rule
from rlmem.rules.lengths import env_steps, run_steps
from rlmem.rules.memories import dotted, memories, parts
from rlmem.rules.observed import SMALLEST_IMAGE_BYTES, WORTH_BYTES, compact_fix, replays, severity
from rlmem.rules.shapes import is_image, number
from rlmem.scripts import Script

_STACKING = re.compile(r"frame_?stack|stack(ed)?_?(frames?|size)|(n|num)_?(frames|stack)|history_?len|LazyFrames", re.I)
#: Wrappers that keep the last few frames, by their names.
_STACKER = re.compile(r"frame_?stack|stack_?(the_)?frames?|LazyFrames|BufferWrapper|FrameBuffer|StackObs", re.I)
_JOINS = ("concatenate", "append", "cat", "hstack", "vstack", "dstack", "stack")
_PICTURES = re.compile(r"frame|im(g|age)|screen|pixel", re.I)
_STACKERS = {"stack", "concatenate", "vstack", "dstack", "cat", "array", "asarray"}
#: Frames in a stack; three planes are colours as a rule.
_DEPTHS = (2, *range(4, 17))
_MANY_ROWS = 10_000


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires for any stored stack of two or more frames."""
    stack = max(depths(subject.spec).values(), default=1)
    if stack < 2 or subject.spec.window or is_compact(subject.spec):
        return
    saves = subject.saving(once.CHANGES)
    if saves <= 0:
        return
    swap = once.swap_for(subject)
    twice = bool(subject.plan.ledger.only(component="replay.next_observations").entries)
    because = ", and so are next observations" if twice else ""
    yield rule.finding(
        f"each frame is stored {2 * stack if twice else stack} times because stacks of {stack} are stored whole{because}",
        saves_bytes=saves,
        location="frame_stack" if subject.spec.get("frame_stack", 1) > 1 else "observation",
        remedy=once.remedy(subject, swap) if swap else "store single frames and stack them when sampling",
        changes=once.CHANGES,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """SB3's buffers over stacked frames, arrays with a row for each stack, and deques of stacks."""
    for store in replays(script):
        seen = store.seen
        if seen.stack < 2 or store.twice is None or store.filled is None or not (seen.image or seen.nbytes):
            continue
        once_bytes = seen.least_bytes // seen.stack
        cost = store.filled * (store.copies * seen.least_bytes - once_bytes)
        gain = store.gains(cost)
        if not gain:
            continue
        twice = ", and so are next observations" if store.twice else ""
        times = f"{store.copies * seen.stack} times" if seen.stack_known else "several times"
        of = f"stacks of {seen.stack}" if seen.stack_known else "stacks"
        yield rule.finding(
            f"{store.owner} keeps each frame {times} because {of} are stored whole{twice}",
            severity=severity(gain),
            place=script.place(store.call),
            costs_bytes=store.sized(cost),
            remedy=f"{store.instead} keeps every frame once",
            fix=compact_fix(script, store.model),
        )
    yield from _arrays(rule, script)
    yield from _deques(rule, script)


def _arrays(rule: Rule, script: Script) -> Iterator[Finding]:
    """One finding a class: its first array with a row for a whole stack."""
    done: set[ast.AST | None] = set()
    for array in arrays(script):
        row = array.row_shape
        if not array.is_store or array.owner in done or row is None or len(row) != 3 or not is_image(row):
            continue
        depth, overlap = min(row), _overlap(script)
        if depth not in _DEPTHS or not _STACKING.search(script.text) or (not overlap and _has_envs(script)):
            continue  # a block of new frames, where the environment is here and shifts nothing
        size = array.filled_bytes(run_steps(script))
        spared = size * (depth - 1) // depth if size is not None else None
        if spared is not None and spared < WORTH_BYTES:
            continue
        done.add(array.owner)
        yield rule.finding(
            f"{array.name} has a row of {prod(row):,} values for every stack of {depth} frames, so that it holds each "
            f"frame {depth} times",
            severity="info" if not overlap else "warning" if spared is None else severity(spared),
            place=script.place(array.call),
            costs_bytes=spared,
            remedy="store single frames and stack them when a batch is taken",
        )


def _overlap(script: Script) -> bool:
    """Whether frames stay in a stack for several steps: a wrapper that stacks, a short deque, or a shift by one."""
    calls = (call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func) for call in script.calls)
    named = (*calls, *(node.name for node in script.classes))
    if any(_STACKER.search(name) for name in named) or any(_short_deques(script)):
        return True
    if any(_is_shift(assign.value) and _is_shifted(assign) for assign in script.assigns if assign.value is not None):
        return True
    joined = (part for call in script.calls_of(*_JOINS) for part in ast.walk(call))
    return any(isinstance(part, ast.Subscript) and _is_shift(part) for part in joined)


def _is_shift(expr: ast.expr) -> bool:
    """``x[1:]``, ``x[:, :, 1:]``, ``x[..., :3]``; ``np.roll`` of one."""
    if isinstance(expr, ast.Call):
        return isinstance(expr.func, ast.Attribute) and expr.func.attr == "roll"
    if not isinstance(expr, ast.Subscript):
        return False
    slices = expr.slice.elts if isinstance(expr.slice, ast.Tuple) else [expr.slice]
    bounds = [part.lower or part.upper for part in slices if isinstance(part, ast.Slice)]
    return any(isinstance(bound, (ast.Constant, ast.UnaryOp)) for bound in bounds)


def _is_shifted(assign: ast.Assign | ast.AnnAssign) -> bool:
    """Whether what is shifted goes back to where it was."""
    target = assign.targets[0] if isinstance(assign, ast.Assign) else assign.target
    source = assign.value.args[0] if isinstance(assign.value, ast.Call) and assign.value.args else assign.value
    there = dotted(target.value if isinstance(target, ast.Subscript) else target)
    return source is not None and there == dotted(source.value if isinstance(source, ast.Subscript) else source) != ""


def _has_envs(script: Script) -> bool:
    return any(env_steps(script)) or any(script.is_env(node) or script.is_wrapper(node) for node in script.classes)


def _deques(rule: Rule, script: Script) -> Iterator[Finding]:
    """A replay memory of tuples into which freshly stacked arrays go."""
    wanted = [memory for memory in memories(script) if memory.is_replay and (memory.capacity or 0) >= _MANY_ROWS]
    frames = set(_short_deques(script)) if wanted else set()
    stacked = {
        dotted(target)
        for assign in script.assigns
        if isinstance(assign, ast.Assign) and _stacks(script, assign.value, frames)
        for target in assign.targets
    } - {""}
    for memory in wanted:
        steps = run_steps(script)
        rows = memory.capacity or 0 if steps is None else min(memory.capacity or 0, steps)
        images = any(_PICTURES.search(name) for name in frames) or any(script.calls_of("Conv2d", "Conv2D"))
        for put in memory.puts:
            if any(dotted(part) in stacked or _stacks(script, part, frames) for part in parts(script, put) or ()):
                yield rule.finding(
                    f"{memory.text} keeps stacks of frames that were joined into new arrays, so that each frame is held "
                    "several times",
                    severity=severity(3 * rows * SMALLEST_IMAGE_BYTES) if images else "info",
                    place=script.place(put),
                    remedy="put single frames in and stack them when a batch is taken",
                )
                break


def _short_deques(script: Script) -> Iterator[str]:
    """The last few frames, as everybody keeps them."""
    for call in script.calls_of("deque"):
        length = number(script, script.argument(call, "maxlen", 1))
        statement = script.statement_of(call)
        if length is not None and 2 <= length <= 16 and isinstance(statement, ast.Assign):
            yield dotted(statement.targets[0])


def _stacks(script: Script, expr: ast.expr, frames: set[str]) -> bool:
    if not isinstance(expr, ast.Call) or not expr.args:
        return False
    name = script.called(expr)
    return name is not None and name.leaf in _STACKERS and dotted(expr.args[0]) in frames - {""}
