"""A replay buffer is loaded while another one lives.

``load_replay_buffer`` unpickles the whole capacity, used or not, into new arrays and only then drops the old buffer:
beside a filled one that is two buffers at once. (Saving is cheap: it streams and adds next to nothing.)

In a script, the rule fires when the model has learned before the buffer is loaded, so that the old one has been written.

Example::

    model.learn(100_000)
    model.load_replay_buffer("buffer.pkl")      # the old buffer lives until this returns

Use instead: load into a freshly built model, whose own arrays have never been written, or drop the old buffer first. The
compact buffers of ``rlmem.sb3`` have ``save`` and ``restore``, which lets the old content go first.

Fix: unsafe, ``model.replay_buffer = None`` before the load.

Reference: measured with SB3 2.9.2; thu-ml/tianshou#260.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.rules.base import Rule
from rlmem.rules.syntax import leaf, method_calls, receiver
from rlmem.scripts import Script

_UNPICKLES = {"pickle.load", "joblib.load", "torch.load", "cloudpickle.load", "dill.load"}


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when the description loads beside a live buffer."""
    if subject.spec.get("resume.replay_buffer") != "beside-live" or "buffer_size" not in subject.spec:
        return
    changes = {"resume.replay_buffer": "into-new"}
    yield rule.finding(
        "a saved replay buffer is loaded beside a live one: two whole buffers at once",
        saves_bytes=subject.saving(changes) or None,
        location="resume.replay_buffer",
        remedy="model.replay_buffer.restore(path) lets the old content go first"
        if is_compact(subject.spec)
        else "load into a freshly built model, before any step is taken",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """``load_replay_buffer`` on a model, or a pickle into its ``replay_buffer``, after that model has learned."""
    for call in method_calls(script, "load_replay_buffer"):
        model = receiver(call)
        if model is not None and _has_learned(script, model, call):
            yield _finding(rule, script, call, model)
    for target, binding in script.walked.attribute_values.get("replay_buffer", ()):
        value = binding.value
        loads = isinstance(value, ast.Call) and (
            script.qualified(value.func) in _UNPICKLES or leaf(value) == "load_from_pkl"
        )
        if isinstance(value, ast.Call) and loads and _has_learned(script, target.value, value):
            yield _finding(rule, script, value, target.value)


def _finding(rule: Rule, script: Script, call: ast.Call, model: ast.expr) -> Finding:
    name = script.segment(model)
    dropped = script.insert_before(script.statement_of(call), f"{name}.replay_buffer = None")
    return rule.finding(
        f"a replay buffer is loaded while the one {name} has filled still lives: two at once",
        place=script.place(call),
        remedy=f"{name}.replay_buffer = None before it, or load into a freshly built model",
        fix=Fix(title="let the old buffer go first", edits=(dropped,), safety="unsafe"),
    )


def _has_learned(script: Script, model: ast.expr, call: ast.Call) -> bool:
    """Whether ``learn`` is the last thing of note that happened to the model before, in the same function."""
    if not isinstance(model, (ast.Name, ast.Attribute)):
        return False
    text = ast.unparse(model)
    learned: list[ast.AST] = [
        each for each in method_calls(script, "learn") if (owner := receiver(each)) and ast.unparse(owner) == text
    ]
    renewed: list[ast.AST] = [
        each
        for each in script.assigns
        for target in (each.targets if isinstance(each, ast.Assign) else [each.target])
        if ast.unparse(target) in (text, f"{text}.replay_buffer") and call is not each.value
    ]
    scope = script.function_of(call) or script.tree
    renewed += [each for each in ast.walk(scope) if isinstance(each, ast.Delete) and text in ast.unparse(each)]
    before = [each for each in (*learned, *renewed) if _runs_before(script, each, call)]
    return bool(before) and max(before, key=lambda each: script.span(each)[0]) in learned


def _runs_before(script: Script, node: ast.AST, call: ast.Call) -> bool:
    """Whether a node comes earlier in the same function, and not in the other branch of a condition."""
    if script.function_of(node) is not script.function_of(call) or script.span(node)[0] >= script.span(call)[0]:
        return False
    own, other = [node, *script.ancestors(node)], [call, *script.ancestors(call)]
    shared = next((above for above in own if above in other), None)
    if not isinstance(shared, ast.If):
        return True
    mine, its = own[own.index(shared) - 1], other[other.index(shared) - 1]
    return (mine in shared.body) == (its in shared.body)
