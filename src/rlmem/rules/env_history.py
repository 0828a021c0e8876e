"""An environment keeps a history that nothing ever shortens.

A list that grows in ``step()`` and is not emptied in ``reset()`` grows for as long as the run lasts, once in every worker.
Numbers cost about 32 bytes a step, observations and info tables far more.

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
from collections.abc import Iterator

from rlmem.edits import Fix
from rlmem.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.growth import Growth, endless
from rlmem.rules.syntax import conditions, methods, self_attribute
from rlmem.scripts import Script

_ENDS = ("done", "terminated", "truncated", "terminal", "episode_over", "finished", "game_over")


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for what ``step()`` makes longer and nothing makes shorter."""
    for cls in script.classes:
        if "step" not in methods(cls) or not (script.is_env(cls) or script.is_wrapper(cls)):
            continue
        seen = set()
        for growth in endless(script, cls, "step", "reset"):
            if growth.attribute in seen:
                continue
            seen.add(growth.attribute)
            rarely = _at_the_end(script, growth)
            yield rule.finding(
                f"{cls.name}.{growth.attribute} grows with every {'episode' if rarely else 'step'} and is never emptied",
                severity="info" if rarely else rule.severity,
                place=script.place(growth.node),
                remedy=f"empty self.{growth.attribute} in reset(), or bound it with deque(maxlen=…)",
                fix=None if rarely else _emptied(script, cls, growth),
            )


def _at_the_end(script: Script, growth: Growth) -> bool:
    """Whether it grows once an episode: in ``reset()``, or behind a condition on its end."""
    return growth.method.name == "reset" or any(
        (isinstance(node, ast.Name) and node.id in _ENDS) or (isinstance(node, ast.Attribute) and node.attr in _ENDS)
        for condition in conditions(script, growth.node, growth.method)
        for node in ast.walk(condition.test)
    )


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
