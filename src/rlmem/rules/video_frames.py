"""Video frames are kept in memory while training.

A recorder keeps the frames of an episode until it is over: 1,000 frames of 400 × 600 × 3 bytes are 687 MiB, for each
environment that records. With a trigger that is always true every episode of the training is recorded; a long
``video_length``, or a list that collects ``env.render()``, does the same.

```python
env = RecordVideo(env, "videos", episode_trigger=lambda episode: True)
model = PPO("MlpPolicy", env)
model.learn(1_000_000)
```

Use instead: a rare trigger (``lambda episode: episode % 500 == 0``), a short ``video_length``, or a recording of the trained
policy afterwards. A list of frames is to be written out and emptied after each episode.

Fix: none.

Reference: Farama-Foundation/Gymnasium#1377, #1444; Zulko/moviepy#2437; isaac-sim/IsaacLab#1942, #5288.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.growth import endless
from rlmem.rules.syntax import SHRINKING, is_training_loop, leaf, loops, method_calls, names_in, trains
from rlmem.scripts import Script

LONG = 10_000
_TRIGGERS = ("episode_trigger", "step_trigger", "record_video_trigger")
_POSITIONS = {"RecordVideo": {"episode_trigger": 2, "step_trigger": 3}, "VecVideoRecorder": {"record_video_trigger": 2}}
_APART = ("eval", "test", "play", "enjoy", "record", "render", "demo", "watch", "show", "visual", "video")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires in scripts that train: triggers that are always true, long videos, lists of rendered frames."""
    if "RecordVideo" in script.text or "VecVideoRecorder" in script.text:
        yield from _recorders(rule, script)
    if ".render(" in script.text:
        yield from _frames(rule, script)


def _recorders(rule: Rule, script: Script) -> Iterator[Finding]:
    if not trains(script):
        return
    for call in script.calls_of("RecordVideo", "VecVideoRecorder"):
        if _is_apart(script, call):
            continue
        positions = _POSITIONS.get(leaf(call), {})
        for name in _TRIGGERS:
            given = script.argument(call, name, positions.get(name))
            if given is not None and _always(script, given):
                yield rule.finding(
                    f"{name} is always true: every episode of the training is recorded",
                    place=script.place(given),
                    remedy="record rarely, for instance lambda episode: episode % 500 == 0",
                )
        length = script.argument(call, "video_length")
        frames = script.value(length) if length is not None else None
        if length is not None and isinstance(frames, int) and frames >= LONG:
            yield rule.finding(
                f"a video of {frames:,} frames is kept in memory until it is written",
                place=script.place(length),
                remedy="a video_length of a few hundred frames",
            )


def _is_apart(script: Script, node: ast.Call) -> bool:
    """Whether the recorder is for another environment than the one that trains, as far as names tell."""
    around = [above for above in script.ancestors(node) if isinstance(above, (ast.FunctionDef, ast.AsyncFunctionDef))]
    words = [function.name.lower() for function in around]
    statement = script.statement_of(node)
    if isinstance(statement, ast.Assign):
        words += [name.lower() for target in statement.targets for name in names_in(target)]
    if any(part in word for word in words for part in _APART):
        return True
    if around:
        return False
    # At the top of a script, what comes after the last learn() is a demonstration.
    ends = [call.lineno for call in method_calls(script, "learn", "backward")]
    return bool(ends) and node.lineno > max(ends)


def _always(script: Script, expr: ast.expr) -> bool:
    function = script.definition(expr)
    if isinstance(function, ast.Name):
        found = [each for each in script.functions if not isinstance(each, ast.Lambda) and each.name == function.id]
        value = script.returned(found[0]) if len(found) == 1 else None
    else:
        value = function.body if isinstance(function, ast.Lambda) else None
    if value is None:
        return False
    if isinstance(value, ast.Compare) and isinstance(value.left, ast.BinOp) and isinstance(value.left.op, ast.Mod):
        zero = isinstance(value.comparators[0], ast.Constant) and value.comparators[0].value == 0
        return zero and isinstance(value.ops[0], ast.Eq) and script.value(value.left.right) == 1
    return isinstance(value, ast.Constant) and value.value is True


def _frames(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in method_calls(script, "append"):
        if not call.args or not _renders(call.args[0]) or not isinstance(call.func, ast.Attribute):
            continue
        target = call.func.value
        if isinstance(target, ast.Name) and _collected(script, call, target.id):
            yield _of_frames(rule, script, call, target.id)
    for cls in script.classes:
        if script.is_callback(cls) or script.is_env(cls) or script.is_wrapper(cls):
            for growth in endless(script, cls, "_on_step", "step"):
                if _renders(growth.added):
                    yield _of_frames(rule, script, growth.node, f"self.{growth.attribute}")


def _renders(expr: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and leaf(node) in {"render", "get_images"} for node in ast.walk(expr))


def _collected(script: Script, call: ast.Call, name: str) -> bool:
    """Whether a loop that trains collects into a list that it never begins again."""
    around = list(loops(script, call))
    if not any(_learns(script, loop) or _is_long(script, loop) for loop in around):
        return False
    for loop in around:
        for node in ast.walk(loop):
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return False
            if isinstance(node, ast.Call) and leaf(node) in SHRINKING and name in names_in(node.func):
                return False
    return True


def _is_long(script: Script, loop: ast.AST) -> bool:
    """A loop over so many episodes or steps that nobody means to keep all their frames."""
    over = loop.iter if isinstance(loop, (ast.For, ast.AsyncFor)) else None
    if not isinstance(over, ast.Call) or leaf(over) not in {"range", "trange"} or not over.args:
        return False
    rounds = script.value(over.args[min(1, len(over.args) - 1)])
    return isinstance(rounds, (int, float)) and rounds >= LONG


def _learns(script: Script, loop: ast.AST) -> bool:
    words = {
        "backward",
        "learn",
        "update",
        "train",
        "optimize_model",
        "replay",
        "train_on_batch",
        "train_step",
        "optimize",
    }
    return is_training_loop(script, loop) and any(
        isinstance(node, ast.Call) and leaf(node) in words for node in ast.walk(loop)
    )


def _of_frames(rule: Rule, script: Script, node: ast.AST, name: str) -> Finding:
    return rule.finding(
        f"{name} keeps every rendered frame of the training",
        place=script.place(node),
        costs_per="frame",
        remedy="write the frames out and empty the list after each episode, or record rarely",
    )
