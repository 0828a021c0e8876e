"""Keras' ``predict()`` is called for single observations.

``predict()`` is made for large inputs: each call sets up a data pipeline, callbacks and, for a new shape, another
traced function. In the ``step()`` of an environment it runs once a step in every worker, and its leftovers pile up; 130
GB in 100,000 steps were reported.

```python
class Env(gym.Env):
    def step(self, action):
        reward = self.reward_model.predict(self.state)[0]
        ...
```

An agent that asks its own network this way (``act()``, ``replay()``) is slow more than it is large, and with TensorFlow
1 it is neither: that is for information only. A file is mentioned once.

Use instead: ``model.predict_on_batch(state)``, which takes and returns arrays as well; with TensorFlow 2 also
``model(state, training=False)``.

Fix: unsafe: ``predict_on_batch``, where there is one argument.

Reference: DLR-RM/stable-baselines3#1699; the notes of ``keras.Model.predict`` ("not intended for use inside of loops").
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import imports_any, is_training_loop, loops, method_calls, methods, reachable, self_attribute
from rlmem.scripts import Script

_KERAS = ("tensorflow", "keras", "tf_keras")
_STEPS = {
    "step", "act", "choose_action", "select_action", "get_action", "pick_action", "replay", "experience_replay", "learn",
    "train", "train_step", "policy", "epsilon_greedy", "epsilon_greedy_policy", "get_q_values", "update", "get_qs", "predict_action", "optimize",
}  # fmt: skip
#: What TensorFlow 1 does not have, and what only it needs.
_SECOND = re.compile(r"GradientTape|tf\.function|tf_keras|import gymnasium|list_physical_devices|keras\.ops|import ops")
_FIRST = re.compile(r"compat\.v1|disable_eager|ConfigProto|tf\.Session|placeholder\(")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires once for models that Keras made: in an environment's step, or mildly where an agent asks at every step."""
    if ".predict(" not in script.text or not imports_any(script, *_KERAS) or "clear_session" in script.text:
        return
    stepping = _stepping(script)
    found = [
        (call, where)
        for call in method_calls(script, "predict")
        if (where := _where(script, call, stepping))
        and isinstance(call.func, ast.Attribute)
        and _is_keras(script, call.func.value)
    ]
    inside = [(call, where) for call, where in found if script.function_of(call) in stepping]
    for call, where in (inside or found)[:1]:
        assert isinstance(call.func, ast.Attribute)
        fix = None
        if len(call.args) == 1 and not call.keywords:
            text = f"{ast.unparse(call.func.value)}.predict_on_batch"
            fix = Fix(title="predict a single batch", edits=(script.edit(call.func, text),), safety="unsafe")
        plain = bool(_SECOND.search(script.text)) and not _FIRST.search(script.text)
        yield rule.finding(
            f"{ast.unparse(call.func)}() of Keras is called {where}",
            severity=rule.severity if inside and not _FIRST.search(script.text) else "info",
            place=script.place(call),
            costs_per="step",
            remedy="model.predict_on_batch(x)" + (", or model(x, training=False)" if plain else ""),
            fix=fix,
        )


def _stepping(script: Script) -> set[ast.AST]:
    """The functions that run in the ``step()`` of an environment."""
    classes = [cls for cls in script.classes if script.is_env(cls) or script.is_wrapper(cls)]
    return {method for cls in classes for method in reachable(cls, "step")}


def _where(script: Script, call: ast.Call, stepping: set[ast.AST]) -> str:
    function = script.function_of(call)
    if function in stepping:
        return f"in {getattr(function, 'name', 'step')}(), at every step of the environment"
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.name in _STEPS:
        often = function.name not in {"learn", "train", "update", "replay", "experience_replay", "optimize"}
        if often or script.loop_of(call) is not None:
            return f"in {function.name}()"
    return "in a loop that steps" if any(is_training_loop(script, loop) for loop in loops(script, call)) else ""


def _is_keras(script: Script, owner: ast.expr) -> bool:
    """Whether Keras made the object: directly, or in a function of this file that builds one model or several."""
    made = script.made_by(owner)
    if made is not None and made.root:
        return made.root in _KERAS
    cls = script.class_of(owner)
    for value in _given(script, owner):
        if isinstance(value, ast.Call):
            own = (
                methods(cls).get(value.func.attr) if cls is not None and isinstance(value.func, ast.Attribute) else None
            )
            builder = own or script.function_called(value)
            if builder is not None and _builds(script, builder):
                return True
    return False


def _given(script: Script, owner: ast.expr) -> Iterator[ast.expr | None]:
    """What a variable or an attribute is set to; the whole right side where several are set at once."""
    name = self_attribute(owner) if isinstance(owner, ast.Attribute) else None
    if isinstance(owner, ast.Name):
        found = script.meaning.lookup(owner.id, owner)
        bindings = found[1] if found is not None else []
    else:
        stored = script.walked.attribute_values.get(name, ()) if name is not None else ()
        bindings = [binding for target, binding in stored if script.class_of(target) is script.class_of(owner)]
    for binding in bindings:
        yield binding.value if binding.value is not None else getattr(binding.node, "value", None)


def _builds(script: Script, function: ast.AST) -> bool:
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            name = script.called(node)
            if name is not None and name.root in _KERAS and name.leaf in {"Sequential", "Model", "load_model"}:
                return True
    return False
