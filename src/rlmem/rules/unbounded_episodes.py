"""Whole episodes are collected, and nothing ends an episode.

A sampler that hands over complete episodes holds each from its first step to its last. In an environment that never
terminates and has no time limit there is no last step, and the episode grows until memory is gone: some games took 30 to
48 GB. SB3's ``Monitor`` keeps the reward of every step of an episode as well.

```python
env = gym.make("Humanoid-v5", max_episode_steps=-1)
config.env_runners(batch_mode="complete_episodes")
```

Use instead: a time limit, ``gym.make(…, max_episode_steps=1000)`` or ``gymnasium.wrappers.TimeLimit``; or
``batch_mode="truncate_episodes"``.

Fix: none.

Reference: thu-ml/tianshou#225; metadriverse/metadrive#679.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import methods
from rlmem.scripts import Script

_LIMITS = (
    "max_episode_steps",
    "TimeLimit",
    "horizon",
    "max_steps",
    "max_ep_len",
    "time_limit",
    "episode_length",
    "StepLimit",
)


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Fires where episodes have no end: whole ones collected of those, a limit switched off, a step() that never ends."""
    endless = [cls for cls in script.classes if "step" in script.text and _never_ends(script, cls)]
    switched = list(_switched_off(script)) if "max_episode_steps" in script.text else []
    limited = any(word in script.text for word in _LIMITS)
    whole = list(_whole_episodes(script)) if "complete_episodes" in script.text else []
    for node in whole:
        if switched or (endless and not limited):
            name = endless[0].name if endless else "the environment"
            yield rule.finding(
                f"whole episodes are collected, and {name} never ends one",
                place=script.place(node),
                remedy="give the environment a time limit, or collect parts: truncate_episodes",
            )
    for node in () if whole else switched:
        yield rule.finding(
            "max_episode_steps=-1 takes the time limit away",
            severity="info",
            place=script.place(node),
            remedy="a limit, however long, bounds what is kept of an episode",
        )
    for cls in () if whole or limited else endless:
        yield rule.finding(
            f"{cls.name}.step() never ends an episode: terminated and truncated are always False",
            severity="info",
            place=script.place(methods(cls)["step"].body[-1]),
            remedy="end episodes, or wrap the environment in TimeLimit: Monitor keeps the rewards of a whole episode",
        )


def _whole_episodes(script: Script) -> Iterator[ast.AST]:
    """``batch_mode="complete_episodes"`` as an argument, and as an entry of a configuration."""
    for call in script.calls:
        for keyword in call.keywords:
            if keyword.arg == "batch_mode" and script.value(keyword.value) == "complete_episodes":
                yield keyword.value
    for node in script.assigns:
        if isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                if (
                    isinstance(key, ast.Constant)
                    and key.value == "batch_mode"
                    and script.value(value) == "complete_episodes"
                ):
                    yield value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript) and node.value is not None:
            key = node.targets[0].slice
            if (
                isinstance(key, ast.Constant)
                and key.value == "batch_mode"
                and script.value(node.value) == "complete_episodes"
            ):
                yield node.value


def _switched_off(script: Script) -> Iterator[ast.AST]:
    for call in script.calls_of("make", "make_vec", roots=("gymnasium", "gym")):
        given = script.argument(call, "max_episode_steps")
        if given is not None and script.value(given) == -1:
            yield given


def _never_ends(script: Script, cls: ast.ClassDef) -> bool:
    """Whether every return of ``step()`` says, in so many words, that the episode goes on."""
    step = methods(cls).get("step")
    if step is None or not script.is_env(cls):
        return False
    returns = [each.value for each in script.walked.returns.get(step, ())]
    if not returns or not all(isinstance(value, ast.Tuple) and len(value.elts) in (4, 5) for value in returns):
        return False
    flags = [flag for value in returns if isinstance(value, ast.Tuple) for flag in value.elts[2:-1]]
    return all(_is_false(step, flag) for flag in flags)


def _is_false(step: ast.AST, expr: ast.expr) -> bool:
    if isinstance(expr, ast.Constant):
        return expr.value is False
    if not isinstance(expr, ast.Name):
        return False
    given = [
        node.value
        for node in ast.walk(step)
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if any(isinstance(part, ast.Name) and part.id == expr.id for part in ast.walk(target))
    ]
    return bool(given) and all(isinstance(value, ast.Constant) and value.value is False for value in given)
