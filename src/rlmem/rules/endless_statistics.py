"""A callback collects something at every step, for the whole run.

``_on_step`` runs once for every step of the vector environment. A list of numbers grows by about 32 bytes a step, which ten
million steps make 300 MB; a list of observations or info tables grows by their size and becomes the largest thing there is.

```python
class Recorder(BaseCallback):
    def __init__(self):
        super().__init__()
        self.seen = []

    def _on_step(self):
        self.seen.append(self.locals["new_obs"])
        return True
```

Use instead: ``collections.deque(maxlen=1000)``, a running mean, or ``self.logger.record``; write arrays to a file.

Fix: none. Numbers are reported as information only.

Reference: SB3's monitor.py (three lists an episode); ray-project/ray#21041; hill-a/stable-baselines#716.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.growth import Growth, endless
from rlmem.rules.syntax import conditions, leaf, methods, self_attribute
from rlmem.scripts import Script

_LARGE = {"obs", "new_obs", "observations", "obs_tensor", "infos", "replay_buffer", "rollout_buffer", "self"}
_SAME = {"copy", "deepcopy", "array", "asarray", "clone", "cpu", "numpy", "detach", "list", "dict"}
_RENDERS = {"render", "get_images"}
#: Bytes of a number in a list: the object and the reference to it.
NUMBER = 32


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for what ``_on_step`` appends and nothing shortens."""
    if "_on_step" not in script.text:
        return
    for cls in script.classes:
        if "_on_step" not in methods(cls) or not script.is_callback(cls):
            continue
        seen = set()
        for growth in endless(script, cls, "_on_step"):
            if growth.attribute in seen or _renders(growth.added):
                continue  # frames are MEM605's
            seen.add(growth.attribute)
            what = _large(script, growth)
            around = list(conditions(script, growth.node, growth.method))
            if any(isinstance(node, ast.Mod) for condition in around for node in ast.walk(condition.test)):
                continue  # every so many steps
            title = f"keeps {what} of every step" if what and not around else "grows for as long as the run lasts"
            yield rule.finding(
                f"{cls.name}.{growth.attribute} {title}",
                severity=rule.severity if what else "info",
                place=script.place(growth.node),
                costs_bytes=None if what or around else NUMBER,
                costs_per="" if around else "step",
                remedy=f"bound self.{growth.attribute} with deque(maxlen=…), or write it out and clear it",
            )


def _renders(expr: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) and leaf(node) in _RENDERS for node in ast.walk(expr))


def _large(script: Script, growth: Growth) -> str | None:
    """The observation, info table or buffer that is kept as a whole; ``None`` for numbers and what is not known."""
    waiting, given = [growth.added], dict[str, ast.expr]()
    for node in ast.walk(growth.method):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            given[node.targets[0].id] = node.value
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            given[node.target.id] = node.iter
    for _ in range(12):
        if not waiting:
            return None
        expr = waiting.pop(0)
        key = _local(expr)
        if key is not None:
            if key in _LARGE:
                return key
        elif isinstance(expr, ast.Call) and leaf(expr) in _SAME:
            waiting += [*expr.args[:1], *([expr.func.value] if isinstance(expr.func, ast.Attribute) else [])]
        elif isinstance(expr, ast.Subscript) and _index(expr):
            waiting.append(expr.value)
        elif isinstance(expr, ast.Name) and expr.id in given:
            waiting.append(given.pop(expr.id))
        elif isinstance(expr, (ast.Tuple, ast.List)):
            waiting += expr.elts
        elif isinstance(expr, ast.Dict):
            waiting += expr.values
    return None


def _index(expr: ast.Subscript) -> bool:
    """``[0]`` takes one environment's; a key takes something out of a table."""
    return not (isinstance(expr.slice, ast.Constant) and isinstance(expr.slice.value, str))


def _local(expr: ast.expr) -> str | None:
    """``"obs"`` in ``self.locals["obs"]`` and ``self.locals.get("obs")``."""
    key: ast.expr | None = None
    if (
        isinstance(expr, ast.Subscript)
        and isinstance(expr.value, ast.Attribute)
        and self_attribute(expr.value) == "locals"
    ):
        key = expr.slice
    elif isinstance(expr, ast.Call) and leaf(expr) == "get" and isinstance(expr.func, ast.Attribute) and expr.args:
        key = expr.args[0] if self_attribute(expr.func.value) == "locals" else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
