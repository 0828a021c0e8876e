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

``self.model.ep_info_buffer`` holds the last 100 episodes: what is appended for each of them in ``_on_step`` grows by
100 values a step, nearly all of them the same as before.

Fix: none. Numbers are reported as information only, and a callback is mentioned once.

Reference: SB3's monitor.py (three lists an episode); ray-project/ray#21041; hill-a/stable-baselines#716.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import SEVERITIES, Finding
from rlmem.rules.base import Rule
from rlmem.rules.growth import Growth, endless
from rlmem.rules.syntax import conditions, leaf, loops, methods, self_attribute
from rlmem.scripts import Script

_LARGE = {"obs", "new_obs", "observations", "obs_tensor", "infos", "replay_buffer", "rollout_buffer", "self"}
_SAME = {"copy", "deepcopy", "array", "asarray", "clone", "cpu", "numpy", "detach", "list", "dict"}
_RENDERS = {"render", "get_images"}
#: Where SB3 keeps the statistics of the last 100 episodes.
_BUFFERS, EPISODES = {"ep_info_buffer", "ep_success_buffer"}, 100
#: Bytes of a number in a list: the object and the reference to it.
NUMBER = 32


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires once for a callback whose ``_on_step`` appends what nothing shortens: for the worst of its lists."""
    if "_on_step" not in script.text:
        return
    for cls in script.classes:
        if "_on_step" in methods(cls) and script.is_callback(cls):
            found = sorted(_collected(rule, script, cls), key=lambda finding: SEVERITIES.index(finding.severity))
            yield from found[:1]


def _collected(rule: Rule, script: Script, cls: ast.ClassDef) -> Iterator[Finding]:
    """What each attribute of a callback collects."""
    seen = set()
    for growth in endless(script, cls, "_on_step"):
        if growth.attribute in seen or _renders(growth.added):
            continue  # frames are MEM605's
        seen.add(growth.attribute)
        again = _of_episodes(script, growth)
        what = _large(script, growth)
        around = list(conditions(script, growth.node, growth.method))
        if any(isinstance(node, ast.Mod) for condition in around for node in ast.walk(condition.test)):
            continue  # every so many steps
        title = f"keeps {what} of every step" if what and not around else "grows for as long as the run lasts"
        if again:
            title = "takes the last 100 episodes over again at every step"
        yield rule.finding(
            f"{cls.name}.{growth.attribute} {title}",
            severity=rule.severity if what or again else "info",
            place=script.place(growth.node),
            costs_bytes=NUMBER * EPISODES if again else None if what or around else NUMBER,
            costs_per="" if around and not again else "step",
            remedy=f"bound self.{growth.attribute} with deque(maxlen=…), or write it out and clear it",
        )


def _of_episodes(script: Script, growth: Growth) -> bool:
    """Whether the last 100 episodes are appended one by one: in a loop over SB3's buffer of them, or by ``extend``."""
    over = [loop.iter for loop in loops(script, growth.node) if isinstance(loop, ast.For)]
    if isinstance(growth.node, ast.Call) and leaf(growth.node) == "extend":
        over.append(growth.added)
    return any(
        isinstance(node, ast.Attribute) and node.attr in _BUFFERS and not isinstance(script.parent(node), ast.Subscript)
        for expr in over
        for node in ast.walk(expr)
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
