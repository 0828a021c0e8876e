"""A simulator loses memory with every reset.

What a physics engine loads stays until it is told to let go, and Python cannot see it: PyBullet keeps every body, shape and
texture that ``reset()`` loads again (10 MB a reset was reported). Box2D's LunarLander loses a little by itself (1.5 KB a
reset, measured with gymnasium 1.4.0).

```python
def reset(self, seed=None, options=None):
    self.robot = p.loadURDF("robot.urdf")
```

With ``resetSimulation()`` or ``removeBody()`` somewhere the engine is told, though not always heard: textures and
shapes were reported to stay. That is for information only.

Use instead: load once and put back with ``saveState``/``restoreState`` or ``resetBasePositionAndOrientation``; else call
``resetSimulation()`` or ``removeBody()`` first. For a leak of the engine's own, start workers anew every few thousand episodes.

Fix: none.

Reference: bulletphysics/bullet3#1660, #2898, #4149; openai/gym#980, #2155; facebookresearch/nle#337.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import conditions, leaf, method_calls, methods, reachable, trains
from rlmem.scripts import Script

#: Bytes an environment loses with each reset, measured with gymnasium 1.4.0; BipedalWalker and CarRacing stayed flat.
LEAKY = {"LunarLander": 1500}
_LOADS = {
    "loadURDF",
    "loadSDF",
    "loadMJCF",
    "createMultiBody",
    "createCollisionShape",
    "createVisualShape",
    "loadTexture",
}
_LETS_GO = {"resetSimulation", "removeBody"}
_STARTS_OVER = {"disconnect", "restoreState", "removeState"}


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires for bodies loaded in ``reset()`` and never removed, and, mildly, for environments that are known to leak."""
    if any(word in script.text for word in _LOADS):
        yield from _loaded(rule, script)
    if any(name in script.text for name in LEAKY) and trains(script):
        yield from _known(rule, script)


def _loaded(rule: Rule, script: Script) -> Iterator[Finding]:
    if any(True for _ in method_calls(script, *_STARTS_OVER)):
        return
    told = any(True for _ in method_calls(script, *_LETS_GO))
    for cls in script.classes:
        if "step" not in methods(cls) or script.is_wrapper(cls):
            continue
        for method in reachable(cls, "reset"):
            for node in ast.walk(method):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and leaf(node) in _LOADS):
                    continue
                if any(True for _ in conditions(script, node, method)):
                    continue  # loaded once, most likely: if self.robot is None
                yield rule.finding(
                    f"{cls.name}.{method.name}() calls {leaf(node)}() at every reset"
                    + ("" if told else " and removes nothing"),
                    severity="info" if told else rule.severity,
                    place=script.place(node),
                    costs_per="reset",
                    remedy="load once and restore the state" + ("" if told else ", or call resetSimulation() first"),
                )
                return


def _known(rule: Rule, script: Script) -> Iterator[Finding]:
    for call in script.calls_of("make", "make_vec_env", "make_vec", "SyncVectorEnv", "AsyncVectorEnv"):
        given = script.argument(call, "id", 0) or script.argument(call, "env_id", 0)
        value = script.value(given) if given is not None else None
        name = next((each for each in LEAKY if isinstance(value, str) and value.startswith(each)), None)
        if name:
            yield rule.finding(
                f"{value} loses about {LEAKY[name] / 1000:g} KB of native memory with every reset",
                severity="info",
                place=script.place(call),
                costs_bytes=LEAKY[name],
                costs_per="reset",
                remedy="in very long runs, start the workers anew now and then",
            )
            return
