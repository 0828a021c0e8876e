"""``step()`` puts something large into the info table.

Vector environments copy the info tables of all environments at every step, pickle them through a pipe where there are
workers, and SB3 keeps ``info["episode"]`` of the last 100 episodes. A list of the whole episode in it is copied again, and
longer, at every step; 1.5 GB an episode were reported.

```python
def step(self, action):
    self.trajectory.append(obs)
    info["trajectory"] = self.trajectory
    return obs, reward, terminated, truncated, info
```

Use instead: keep the data in the environment and ask for it with ``env.get_attr``, or write it to a file at the end of an
episode. Numbers are what info tables are for.

Fix: none. An observation that is passed on as it is, is reported as information only, unless it is known to be an
image. imitation's ``RolloutInfoWrapper``, which does so by design, is mentioned for information where a model learns.

Reference: HumanCompatibleAI/imitation#178; ``step_wait`` in SB3's dummy_vec_env.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from rlmem.core.findings import Finding
from rlmem.core.spaces import DTYPES
from rlmem.rules.base import Rule
from rlmem.rules.growth import GROWS
from rlmem.rules.observed import of_class
from rlmem.rules.shapes import dtype_of, is_image, shape
from rlmem.rules.syntax import leaf, method_calls, methods, receiver, self_attribute
from rlmem.scripts import Script
from rlmem.units import KIB

#: Keys that vector environments and wrappers put an observation into by agreement.
_AGREED = {"terminal_observation", "final_observation", "final_obs", "final_info"}
_SAME = {
    "copy", "deepcopy", "array", "asarray", "list", "tuple", "stack", "vstack", "hstack", "dstack", "concatenate", "cat",
    "astype", "tolist", "numpy",
}  # fmt: skip
_OBSERVATION = "the observation"
_MAKES = {"zeros", "ones", "empty", "full", "random"}
#: An array of this size in every info table is copied often enough to matter.
LARGE_BYTES = 64 * KIB


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for lists that ``step()`` makes longer, frames, and anything large in ``info["episode"]``."""
    yield from _of_imitation(rule, script)
    for cls in script.classes:
        step = methods(cls).get("step")
        if step is None or not (script.is_env(cls) or script.is_wrapper(cls)):
            continue
        observations, tables = _returned(script, step)
        grown = _grown(cls)
        for key, value, node in _entries(step, tables):
            found = _payload(script, value, observations, grown)
            if found is None or key in _AGREED:
                continue
            what, size = found
            if what == _OBSERVATION:
                size = of_class(script, cls).nbytes
            large = key == "episode" or (size >= LARGE_BYTES if size is not None else what != _OBSERVATION)
            yield rule.finding(
                f'{cls.name}.step() puts {what} into info["{key}"]',
                severity=rule.severity if large else "info",
                place=script.place(node),
                costs_bytes=size,
                costs_per="step",
                remedy="keep it in the environment and read it with get_attr(), or write it to a file",
            )


def _of_imitation(rule: Rule, script: Script) -> Iterator[Finding]:
    """The wrapper that keeps whole episodes by design, in a script whose models learn."""
    for call in script.calls_of("RolloutInfoWrapper", roots=("imitation",)):
        if any(True for _ in method_calls(script, "learn")):
            yield rule.finding(
                "RolloutInfoWrapper puts the whole episode into its last info table",
                severity="info",
                place=script.place(call),
                costs_per="episode",
                remedy="wrap the environments that demonstrations are collected in, not those a model learns in",
            )


def _returned(script: Script, step: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[set[str], set[str]]:
    """The names that step() returns as its observation and as its info table."""
    observations, tables = set(), {"info"}
    for each in script.walked.returns.get(step, ()):
        if isinstance(each.value, ast.Tuple) and len(each.value.elts) in (4, 5):
            first, last = each.value.elts[0], each.value.elts[-1]
            observations |= {first.id} if isinstance(first, ast.Name) else set()
            tables |= {last.id} if isinstance(last, ast.Name) else set()
    return observations, tables


def _entries(step: ast.AST, tables: set[str]) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """What is written into an info table: key, value and the node to show."""
    for node in ast.walk(step):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Subscript):
                words = _keys(target)
                if words is not None and words[0] in tables:
                    yield words[1], node.value, node
            elif isinstance(target, ast.Name) and target.id in tables:
                yield from _display(node.value)
        elif isinstance(node, ast.Call) and leaf(node) == "update" and node.args:
            if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in tables:
                yield from _display(node.args[0])
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and node.value.elts:
            yield from _display(node.value.elts[-1])


def _display(table: ast.expr) -> Iterator[tuple[str, ast.expr, ast.AST]]:
    """The entries of ``{"key": value}`` and ``dict(key=value)``."""
    if isinstance(table, ast.Call) and leaf(table) == "dict":
        yield from ((keyword.arg, keyword.value, keyword.value) for keyword in table.keywords if keyword.arg)
    if not isinstance(table, ast.Dict):
        return
    for key, value in zip(table.keys, table.values, strict=True):
        if isinstance(key, ast.Constant):
            yield str(key.value), value, value


def _keys(target: ast.Subscript) -> tuple[str, str] | None:
    """The table and the first key of ``info["a"]`` and ``info["a"]["b"]``."""
    keys = []
    expr: ast.expr = target
    while isinstance(expr, ast.Subscript):
        keys.append(expr.slice)
        expr = expr.value
    if isinstance(expr, ast.Name) and isinstance(keys[-1], ast.Constant):
        return expr.id, str(keys[-1].value)
    return None


def _grown(cls: ast.ClassDef) -> set[str]:
    """Attributes that ``step()`` appends to."""
    found = set()
    step = methods(cls)["step"]
    for node in ast.walk(step):
        if isinstance(node, ast.Call) and leaf(node) in GROWS - {"add"} and (owner := receiver(node)) is not None:
            found |= {name} if (name := self_attribute(owner)) else set()
    return found


def _payload(script: Script, value: ast.expr, observations: set[str], grown: set[str]) -> tuple[str, int | None] | None:
    """What is put into a table, if it is large, and its bytes where they are known."""
    if isinstance(value, ast.Call) and (size := _array_bytes(script, value)) is not None:
        return "an array the size of an image", size
    while isinstance(value, ast.Call) and leaf(value) in _SAME:
        inner = receiver(value) if script.called(value) is None else value.args[0] if value.args else None
        if inner is None:
            return None
        value = inner
    if isinstance(value, ast.Name) and value.id in observations:
        return _OBSERVATION, None
    if isinstance(value, ast.Attribute) and self_attribute(value) in grown:
        return f"the whole of self.{value.attr}", None
    if isinstance(value, ast.Call) and leaf(value) in {"render", "_render_frame", "get_screen"}:
        return "a rendered frame", None
    if isinstance(value, ast.Dict):
        inside = (_payload(script, part, observations, grown) for part in value.values)
        return next((found for found in inside if found), None)
    made = script.definition(value) if isinstance(value, (ast.Name, ast.Attribute)) else value
    size = _array_bytes(script, made) if isinstance(made, ast.Call) else None
    return None if size is None else (f"{ast.unparse(value)}, an array the size of an image,", size)


def _array_bytes(script: Script, call: ast.Call) -> int | None:
    """The bytes of an array with the shape of an image that numpy makes."""
    name = script.called(call)
    if name is None or name.root != "numpy" or name.leaf not in _MAKES:
        return None
    dims = shape(script, script.argument(call, "shape", 0))
    given = script.argument(call, "dtype", 2 if name.leaf == "full" else 1)
    dtype = dtype_of(script, given) or ("" if given is not None else "float64")
    return prod(dims) * DTYPES[dtype] if dims and dtype and is_image(dims) else None
