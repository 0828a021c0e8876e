"""Keras' ``predict()`` is called for single observations.

``predict()`` is made for large inputs: each call sets up a data pipeline, callbacks and, for a new shape, another traced
function. Called once a step it is slow and its leftovers pile up; 130 GB in 100,000 steps were reported.

```python
def act(self, state):
    return np.argmax(self.model.predict(state)[0])
```

Use instead: ``model(state, training=False)``, or ``model.predict_on_batch(state)``, which takes and returns arrays as well.

Fix: unsafe: ``predict_on_batch``, where there is one argument.

Reference: DLR-RM/stable-baselines3#1699; the notes of ``keras.Model.predict`` ("not intended for use inside of loops").
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.edits import Fix
from rlmem.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import imports_any, is_training_loop, loops, method_calls, methods, self_attribute
from rlmem.scripts import Script

_KERAS = ("tensorflow", "keras", "tf_keras")
_STEPS = {
    "step", "act", "choose_action", "select_action", "get_action", "pick_action", "replay", "experience_replay", "learn",
    "train", "train_step", "policy", "epsilon_greedy", "epsilon_greedy_policy", "get_q_values", "update", "get_qs", "predict_action", "optimize",
}  # fmt: skip


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for models that Keras made, in methods that run at every step and in loops that step an environment."""
    if ".predict(" not in script.text or not imports_any(script, *_KERAS) or "clear_session" in script.text:
        return
    said: set[ast.AST | None] = set()
    for call in method_calls(script, "predict"):
        assert isinstance(call.func, ast.Attribute)
        where = _where(script, call)
        function = script.function_of(call)
        if not where or function in said or not _is_keras(script, call.func.value):
            continue
        said.add(function)
        fix = None
        if len(call.args) == 1 and not call.keywords:
            text = f"{ast.unparse(call.func.value)}.predict_on_batch"
            fix = Fix(title="predict a single batch", edits=(script.edit(call.func, text),), safety="unsafe")
        yield rule.finding(
            f"{ast.unparse(call.func)}() of Keras is called {where}",
            place=script.place(call),
            costs_per="step",
            remedy="call the model itself, model(x, training=False), or model.predict_on_batch(x)",
            fix=fix,
        )


def _where(script: Script, call: ast.Call) -> str:
    function = script.function_of(call)
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name in _STEPS:
        often = function.name not in {"learn", "train", "update", "replay", "experience_replay", "optimize"}
        if often or script.loop_of(call) is not None:
            return f"in {function.name}()"
    return "in a loop that steps" if any(is_training_loop(script, loop) for loop in loops(script, call)) else ""


def _is_keras(script: Script, owner: ast.expr) -> bool:
    """Whether Keras made the object: directly, or in a function of this file that builds models."""
    made = script.made_by(owner)
    if made is not None and made.root:
        return made.root in _KERAS
    name = self_attribute(owner) if isinstance(owner, ast.Attribute) else None
    cls = script.class_of(owner)
    if name is None or cls is None:
        return False
    for target, binding in script.walked.attribute_values.get(name, ()):
        if script.class_of(target) is not cls or not isinstance(binding.value, ast.Call):
            continue
        builder = methods(cls).get(binding.value.func.attr) if isinstance(binding.value.func, ast.Attribute) else None
        builder = builder or script.function_called(binding.value)
        if builder is not None and _builds(script, builder):
            return True
    return False


def _builds(script: Script, function: ast.AST) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = script.called(node)
            if name is not None and name.root in _KERAS and name.leaf in {"Sequential", "Model", "load_model"}:
                return True
    return False
