"""A replay buffer is written in a way that copies it first.

``pickle.dump`` without a protocol writes protocol 4 (before Python 3.14), which turns every array into a copy in bytes
before it is written: a second buffer while it is saved. Protocol 3 and older copy it three times, ``torch.save`` of an object
with numpy arrays four times. Protocol 5 writes the arrays as they lie in memory and adds nothing. SB3's own
``save_replay_buffer`` uses it.

A buffer that is known to be small (fewer than 100,000 rows and no images) is mentioned for information only.

A checkpoint callback that saves the buffer every few thousand steps costs little memory, but each file is as large as the
buffer and files are not removed.

Example::

    with open("buffer.pkl", "wb") as file:
        pickle.dump(model.replay_buffer, file)

Use instead: ``pickle.dump(model.replay_buffer, file, protocol=5)``, ``model.save_replay_buffer(path)``, or ``np.save`` for
each array.

Fix: safe for ``pickle.dump`` without a protocol (files of protocol 5 need Python 3.8 or newer to read); unsafe where an older
one is asked for, since somebody may need it; none otherwise. ``cloudpickle`` writes protocol 5 by itself.

Reference: measured with Python 3.11, numpy 2.4 and torch 2.13 on a buffer of 191 MiB: protocol 2 adds 572 MiB, 4 adds
191 MiB, 5 adds 0, ``torch.save`` adds 763 MiB; thu-ml/tianshou#260; Unity-Technologies/ml-agents#3164.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.observed import replays
from rlmem.rules.shapes import number
from rlmem.scripts import UNKNOWN, Script

_BUFFER = re.compile(
    r"((replay|experience|transition)_?(buffer|memory|pool)|^(rb|replay)|ReplayBuffer|ReplayMemory)(s|_?\d+)?$"
)
_PLAIN = 5
#: Files of the whole buffer more often than this many calls of a callback.
OFTEN = 20_000
#: Fewer rows of a few numbers each are a matter of megabytes.
SMALL_ROWS = 100_000
_SIZES = ("buffer_size", "capacity", "total_size", "max_size", "size", "maxlen", "buffer_capacity", "memory_size")
_IMAGES = re.compile(r"Cnn|Conv2[dD]|[aA]tari|ALE/|NoFrameskip|CarRacing|84, 84|cv2|pixels")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """``pickle.dump`` and ``torch.save`` of a buffer; checkpoints that save it often."""
    for call in script.calls_of("dump", roots=("pickle", "cloudpickle", "dill")):
        given = script.argument(call, "protocol", 2)
        protocol = script.value(given) if given is not None else None
        old = isinstance(protocol, int) and 0 <= protocol < _PLAIN
        if given is None and (name := script.called(call)) is not None and name.root == "cloudpickle":
            continue  # it writes protocol 5 unless it is told otherwise
        if (
            call.args
            and (_is_buffer(script, call.args[0]) or (old and _is_store(call.args[0])))
            and (given is None or old)
            and not script.has_unknown_arguments(call)
        ):
            yield _pickled(rule, script, call, given, protocol)
    for call in script.calls_of("save", roots=("torch",)):
        if call.args and _is_buffer(script, call.args[0]):
            yield rule.finding(
                "torch.save() of a replay buffer copies it several times in memory before it is written",
                severity="info" if _is_small(script, call.args[0]) else rule.severity,
                place=script.place(call),
                remedy="pickle.dump(buffer, file, protocol=5), or np.save for each array",
            )
    yield from _often(rule, script)


def _is_store(expr: ast.expr) -> bool:
    """Whether something is called a buffer or a memory; enough where an old protocol is asked for by number."""
    name = expr.attr if isinstance(expr, ast.Attribute) else expr.id if isinstance(expr, ast.Name) else ""
    return name.lower().endswith(("buffer", "memory", "replay"))


def _pickled(rule: Rule, script: Script, call: ast.Call, given: ast.expr | None, protocol: object) -> Finding:
    said = "without a protocol" if given is None else f"with protocol {protocol}"
    edit = script.add_argument(call, "protocol=5") if given is None else script.edit(given, "5")
    return rule.finding(
        f"a replay buffer is pickled {said}: every array is copied before it is written",
        severity="info" if _is_small(script, call.args[0]) else rule.severity,
        place=script.place(call),
        remedy="protocol=5 writes the arrays as they are",
        fix=Fix(title="write protocol 5", edits=(edit,), safety="safe" if given is None else "unsafe"),
    )


def _is_small(script: Script, expr: ast.expr) -> bool:
    """Whether a buffer is known to have few rows, of no images."""
    rows = _rows(script, expr)
    return rows is not None and rows < SMALL_ROWS and not _IMAGES.search(script.text)


def _rows(script: Script, expr: ast.expr) -> int | None:
    """The capacity of a buffer: of the model it belongs to, or as its constructor is told."""
    if isinstance(expr, ast.Attribute) and expr.attr == "replay_buffer":
        model = script.definition(expr.value)
        return next((each.rows for each in replays(script) if each.call is model), None)
    sizes = [_size(script, value) for value in _values(script, expr) if isinstance(value, ast.Call)]
    known = [size for size in sizes if size is not None]
    return max(known, default=None) if len(known) == len(sizes) else None


def _values(script: Script, expr: ast.expr) -> list[ast.expr | None]:
    """What a variable is given, in every branch; its one definition otherwise."""
    found = script.meaning.lookup(expr.id, expr) if isinstance(expr, ast.Name) else None
    return [binding.value for binding in found[1]] if found is not None else [script.definition(expr)]


def _size(script: Script, call: ast.Call) -> int | None:
    given = [value for name in _SIZES if (value := script.argument(call, name)) is not None]
    return number(script, given[0] if given else call.args[0] if call.args else None)


def _often(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls_of("CheckpointCallback", roots=("stable_baselines3",)):
        given, every = script.argument(call, "save_replay_buffer", 3), script.argument(call, "save_freq", 0)
        freq = script.value(every) if every is not None else UNKNOWN
        if given is None or script.value(given) is not True or not isinstance(freq, int) or freq > OFTEN:
            continue
        yield rule.finding(
            f"a file with the whole replay buffer is written every {freq:,} calls, and none is removed",
            severity="info",
            place=script.place(call),
            remedy="a larger save_freq, or save_replay_buffer() once at the end",
        )


def _is_buffer(script: Script, expr: ast.expr) -> bool:
    """A variable or attribute named like a replay buffer, or an object made by a class of that name."""
    word = expr.attr if isinstance(expr, ast.Attribute) else expr.id if isinstance(expr, ast.Name) else ""
    made = script.made_by(expr)
    return bool(_BUFFER.search(word) or (made is not None and _BUFFER.search(made.leaf)))
