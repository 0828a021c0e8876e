"""An environment keeps a history that nothing ever shortens.

A list that grows in ``step()`` and is not emptied in ``reset()`` grows for as long as the run lasts, once in every
worker. Numbers cost about 32 bytes a step, observations and info tables far more. A history that is read outside of the
class is somebody's result: it is mentioned for information where the script trains, and not at all in a measurement or
a test. A set of grid cells ends with the grid, and is for information too.

```python
class Trading(gym.Env):
    def __init__(self):
        self.history = []

    def step(self, action):
        self.history.append(self.portfolio())
        ...
```

Use instead: empty it in ``reset()``, bound it with ``collections.deque(maxlen=1000)``, or write it to a file.

Fix: unsafe: the attribute is made new in ``reset()``; whoever reads the history of several episodes would miss them.

Reference: hsahovic/poke-env#766; Kaggle/kaggle-environments#151; AVSLab/bsk_rl#31.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from rlmem.core.edits import Fix
from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.growth import Growth, endless
from rlmem.rules.syntax import conditions, leaf, methods, self_attribute, trains
from rlmem.scripts import Script

_ENDS = ("done", "terminated", "truncated", "terminal", "episode_over", "finished", "game_over")
#: Methods that are called like this run once an episode.
_ONCE = re.compile(r"terminal|finish|reset|episode_end|end_episode|on_done")
#: Classes that are called like this measure or stand in for something.
_HELPERS = re.compile(r"Time[dr]|Timing|Profil|Bench|Mock|Fake|Dummy|Spy|Debug|Test")
#: Variables that say where something is on a grid.
_CELLS = re.compile(r"pos|loc|cell|coord|tile|room", re.IGNORECASE)
_FEW_PARTS = 4
_DEEP = 3


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for what ``step()`` makes longer and nothing makes shorter."""
    for cls in script.classes:
        if "step" not in methods(cls) or not (script.is_env(cls) or script.is_wrapper(cls)):
            continue
        if _HELPERS.search(cls.name):
            continue
        seen = set()
        for growth in endless(script, cls, "step", "reset"):
            if growth.attribute in seen:
                continue
            seen.add(growth.attribute)
            rarely = _at_the_end(script, growth.method, growth.node) or _called_rarely(script, cls, growth.method)
            wanted = _read_elsewhere(script, cls, growth.attribute)
            if wanted and not trains(script):
                continue
            cells = _is_cell(growth)
            minor = rarely or wanted or cells
            often = "now and then" if rarely else "with every cell that is new" if cells else "with every step"
            yield rule.finding(
                f"{cls.name}.{growth.attribute} grows {often} and is never emptied",
                severity="info" if minor else rule.severity,
                place=script.place(growth.node),
                remedy=f"empty self.{growth.attribute} in reset(), or bound it with deque(maxlen=…)",
                fix=None if minor else _emptied(script, cls, growth),
            )


def _is_cell(growth: Growth) -> bool:
    """Whether a few coordinates are added to a set, of which there are as many as the grid has cells."""
    if not (isinstance(growth.node, ast.Call) and leaf(growth.node) == "add"):
        return False
    added = growth.added
    if isinstance(added, ast.Call) and leaf(added) == "tuple" and len(added.args) == 1:
        return bool(_CELLS.search(ast.unparse(added.args[0])))
    return isinstance(added, ast.Tuple) and len(added.elts) <= _FEW_PARTS


def _at_the_end(script: Script, method: ast.FunctionDef | ast.AsyncFunctionDef, node: ast.AST) -> bool:
    """Whether a node runs once an episode: in ``reset()``, or behind a condition on its end."""
    if _ONCE.search(method.name):
        return True
    for condition in conditions(script, node, method):
        ends = any(
            (isinstance(part, ast.Name) and part.id in _ENDS)
            or (isinstance(part, ast.Attribute) and part.attr in _ENDS)
            for part in ast.walk(condition.test)
        )
        if ends and not _is_otherwise(script, node, condition):
            return True
    return False


def _is_otherwise(script: Script, node: ast.AST, condition: ast.If | ast.IfExp) -> bool:
    """Whether a node stands in the ``else`` of ``if done:``, or under ``if not done:``: that is every other step."""
    negated = isinstance(condition.test, ast.UnaryOp) and isinstance(condition.test.op, ast.Not)
    inside = {node, *script.ancestors(node)}
    orelse = condition.orelse if isinstance(condition.orelse, list) else [condition.orelse]
    return negated != any(part in inside for part in orelse)


def _called_rarely(
    script: Script, cls: ast.ClassDef, method: ast.FunctionDef | ast.AsyncFunctionDef, depth: int = _DEEP
) -> bool:
    """Whether all calls of a method stand where an episode ends, or behind a condition: at some steps, not at each."""
    if method.name == "step" or not depth:
        return False
    calls = [
        (other, node)
        for other in methods(cls).values()
        for node in ast.walk(other)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and leaf(node) == method.name
        and self_attribute(node.func) == method.name
    ]
    return bool(calls) and all(
        _at_the_end(script, other, node)
        or any(True for _ in conditions(script, node, other))
        or _called_rarely(script, cls, other, depth - 1)
        for other, node in calls
    )


def _read_elsewhere(script: Script, cls: ast.ClassDef, attribute: str) -> bool:
    """Whether somebody outside of the class reads the attribute of an environment, by its name or through ``get_attr``."""
    reads = [node for node in script.walked.attributes.get(attribute, ()) if script.class_of(node) is not cls]
    if any(self_attribute(node) is None and _may_be(script, cls, node.value) for node in reads):
        return True
    return bool(re.search(rf"""get_?attr\([^)]*["']{re.escape(attribute)}["']""", script.text))


def _may_be(script: Script, cls: ast.ClassDef, expr: ast.expr) -> bool:
    """Whether an expression may name an environment of this class: anything but what is known to be made otherwise."""
    made = script.made_by(expr)
    return made is None or made.leaf == cls.name or "env" in made.leaf.lower() or made.leaf == "make"


def _emptied(script: Script, cls: ast.ClassDef, growth: Growth) -> Fix | None:
    reset, begin = methods(cls).get("reset"), methods(cls).get("__init__")
    if reset is None or begin is None:
        return None
    made = [
        node.value
        for node in ast.walk(begin)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Attribute) and self_attribute(target) == growth.attribute
    ]
    if len(made) != 1:
        return None
    statements = [
        each for each in reset.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    ]
    if not statements or statements[0].lineno == reset.lineno:
        return None
    line = f"self.{growth.attribute} = {ast.unparse(made[0])}"
    return Fix(
        title=f"empty {growth.attribute} in reset()",
        edits=(script.insert_before(statements[0], line),),
        safety="unsafe",
    )
