"""Logging takes copies of weights or pictures at every step, or opens a writer in every round.

Writers put what they are given into a queue and write it in a thread of their own. Histograms of all weights, videos and
images at every step fill it faster than it empties; ``wandb.watch(log="all")`` makes a histogram of every weight and every
gradient. A ``SummaryWriter`` has a thread, a queue and an open file, and keeps them until it is closed.

```python
for step in range(1_000_000):
    loss.backward()
    for name, weight in model.named_parameters():
        writer.add_histogram(name, weight, step)
```

Use instead: log every few thousand steps (``if step % 5000 == 0:``), numbers rather than tensors, and ``writer.close()``.

Fix: none.

Reference: wandb/wandb#2644; lanpa/tensorboardX#116; pytorch/pytorch#61186; taylorhansen/pokemonshowdown-ai#358.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import conditions, is_training_loop, leaf, loops, method_calls, methods, names_in, rounds
from rlmem.scripts import Script

_HEAVY = ("add_histogram", "add_video", "add_images", "add_image", "add_figure", "add_embedding", "add_mesh")
_WRITERS = ("SummaryWriter",)
#: wandb.watch() logs every 1,000 backward passes by itself.
USUAL_FREQUENCY = 1000
FEW = 10


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for histograms and pictures without a condition in a loop that steps, writers made in one, and watch("all")."""
    if ".add_" in script.text:
        yield from _every_step(rule, script)
    if "SummaryWriter" in script.text:
        yield from _writers(rule, script)
    if "wandb" in script.text:
        yield from _watched(rule, script)


def _every_step(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in method_calls(script, *_HEAVY):
        function = script.function_of(call)
        steps = next((loop for loop in loops(script, call) if is_training_loop(script, loop)), None)
        if steps is None and not (function and (_is_update(script, function) or _is_callback_step(script, function))):
            continue
        if any(True for _ in conditions(script, call, steps or function)) or _skips(steps or function, call):
            continue
        yield rule.finding(
            f"{leaf(call)}() runs at every step",
            place=script.place(call),
            costs_per="step",
            remedy="log it every few thousand steps",
        )


def _is_update(script: Script, function: ast.AST) -> bool:
    """Whether a function is one step of training: it calls ``backward()``, and not in a loop of its own."""
    calls = [call for call in method_calls(script, "backward") if script.function_of(call) is function]
    return bool(calls) and all(script.loop_of(call) is None for call in calls)


def _is_callback_step(script: Script, function: ast.AST) -> bool:
    cls = script.class_of(function)
    return cls is not None and methods(cls).get("_on_step") is function and script.is_callback(cls)


def _skips(scope: ast.AST | None, call: ast.Call) -> bool:
    """Whether an earlier line may leave the round: ``if step % 1000: continue``."""
    return scope is not None and any(
        isinstance(node, (ast.Continue, ast.Return, ast.Break)) and node.lineno < call.lineno
        for node in ast.walk(scope)
    )


def _writers(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls_of(*_WRITERS):
        around, statement = list(loops(script, call)), script.statement_of(call)
        if not around or isinstance(statement, ast.With):
            continue
        count = rounds(script, around[0])
        if (count is not None and count <= FEW) or any(True for _ in conditions(script, call, around[0])):
            continue
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        closed = any(
            isinstance(node, ast.Call)
            and leaf(node) == "close"
            and (target is None or names_in(target) & names_in(node.func))
            for node in ast.walk(around[0])
        )
        if not closed:
            yield rule.finding(
                "a SummaryWriter is made in every round of a loop and never closed",
                place=script.place(call),
                costs_per="round",
                remedy="make one writer before the loop, or close() each at the end of its round",
            )


def _watched(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls_of("watch", roots=("wandb",)):
        log, frequency = script.argument(call, "log", 2), script.argument(call, "log_freq", 3)
        what = "gradients" if log is None else script.value(log)
        every = USUAL_FREQUENCY if frequency is None else script.value(frequency)
        if not isinstance(what, str) or not isinstance(every, int) or script.has_unknown_arguments(call):
            continue
        if what in {"all", "parameters"} and (every < USUAL_FREQUENCY or frequency is None):
            title = f'wandb.watch(log="{what}") makes a histogram of every weight'
        elif every < 100:
            title = (
                f"wandb.watch(log_freq={every}) makes a histogram of every gradient at every {every} backward passes"
            )
        else:
            continue
        yield rule.finding(
            title, place=script.place(call), remedy='log="gradients" with a log_freq of thousands, or no watch() at all'
        )
