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

Fix: none. An observation that is passed on as it is, is reported as information only.

Reference: HumanCompatibleAI/imitation#178; ``step_wait`` in SB3's dummy_vec_env.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.growth import GROWS
from rlmem.rules.syntax import leaf, methods, receiver, self_attribute
from rlmem.scripts import Script

#: Keys that vector environments and wrappers put an observation into by agreement.
_AGREED = {"terminal_observation", "final_observation", "final_obs", "final_info"}
_SAME = {"copy", "deepcopy", "array", "asarray", "list", "tuple"}


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for lists that ``step()`` makes longer, frames, and anything large in ``info["episode"]``."""
    if "info" not in script.text:
        return
    for cls in script.classes:
        step = methods(cls).get("step")
        if step is None or not (script.is_env(cls) or script.is_wrapper(cls)):
            continue
        observations, tables = _returned(script, step)
        grown = _grown(cls)
        for key, value, node in _entries(step, tables):
            what = _payload(value, observations, grown)
            if what is None or key in _AGREED:
                continue
            large = what != "the observation" or key == "episode"
            yield rule.finding(
                f'{cls.name}.step() puts {what} into info["{key}"]',
                severity=rule.severity if large else "info",
                place=script.place(node),
                costs_per="step",
                remedy="keep it in the environment and read it with get_attr(), or write it to a file",
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


def _payload(value: ast.expr, observations: set[str], grown: set[str]) -> str | None:
    while isinstance(value, ast.Call) and leaf(value) in _SAME:
        inner = value.args[0] if value.args else receiver(value)
        if inner is None:
            return None
        value = inner
    if isinstance(value, ast.Name) and value.id in observations:
        return "the observation"
    if isinstance(value, ast.Attribute) and self_attribute(value) in grown:
        return f"the whole of self.{value.attr}"
    if isinstance(value, ast.Call) and leaf(value) in {"render", "_render_frame", "get_screen"}:
        return "a rendered frame"
    if isinstance(value, ast.Dict):
        return next((what for part in value.values if (what := _payload(part, observations, grown))), None)
    return None
