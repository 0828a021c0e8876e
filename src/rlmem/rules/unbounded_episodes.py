"""Whole episodes are collected, and nothing ends an episode.

A sampler that hands over complete episodes holds each from its first step to its last. In an environment that never
terminates and has no time limit there is no last step, and the episode grows until memory is gone: some games took 30 to
48 GB. SB3's ``Monitor`` keeps the reward of every step of an episode as well.

```python
env = gym.make("Humanoid-v5", max_episode_steps=-1)
config.env_runners(batch_mode="complete_episodes")
```

Where the environment is not known, and nothing in the file speaks of a limit, whole episodes are mentioned for
information; so is an environment that is registered without ``max_episode_steps`` and then learned in, unless its class
is seen to end episodes.

Use instead: a time limit, ``gym.make(…, max_episode_steps=1000)`` or ``gymnasium.wrappers.TimeLimit``; or
``batch_mode="truncate_episodes"``.

Fix: none.

Reference: thu-ml/tianshou#225; metadriverse/metadrive#679.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import methods, trains
from rlmem.scripts import Script
from rlmem.sources.environments import find_environment

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
        known = any(script.is_env(cls) for cls in script.classes) or _has_known_id(script)
        if not switched and not limited and not known:
            yield rule.finding(
                "whole episodes are collected, and each is held until it ends",
                severity="info",
                place=script.place(node),
                remedy="see that every episode has an end: max_episode_steps, TimeLimit, or truncate_episodes",
            )
        if switched or (endless and not limited):
            name = endless[0].name if endless else "the environment"
            yield rule.finding(
                f"whole episodes are collected, and {name} never ends one",
                place=script.place(node),
                remedy="give the environment a time limit, or collect parts: truncate_episodes",
            )
    if not limited and not endless and "register" in script.text and trains(script):
        yield from _registered(rule, script)
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


def _has_known_id(script: Script) -> bool:
    """Whether an environment is named that has a limit of its own, as those of Gymnasium have."""
    texts = (
        node.value
        for call in script.calls
        for node in (*call.args, *(k.value for k in call.keywords))
        if isinstance(node, ast.Constant)
    )
    return any(isinstance(text, str) and find_environment(text) is not None for text in texts)


def _registered(rule: Rule, script: Script) -> Iterator[Finding]:
    """Environments registered without a limit, in a script that learns, whose class does not show an end."""
    for call in script.calls_of("register", roots=("gymnasium", "gym")):
        entry = script.value(script.argument(call, "entry_point", 1))
        if script.has_unknown_arguments(call) or not isinstance(entry, str):
            continue
        word = entry.rpartition(":")[2]
        if any(cls.name == word for cls in script.classes) or _ends_abroad(script, entry):
            continue
        yield rule.finding(
            f"{word} is registered without max_episode_steps: only the environment itself can end an episode",
            severity="info",
            place=script.place(call),
            remedy="register(…, max_episode_steps=1000): a limit, however long, bounds what is kept of an episode",
        )


def _ends_abroad(script: Script, entry: str) -> bool:
    """Whether the class is in another file of the project and says when an episode is over."""
    found = script.meaning.abroad(entry.replace(":", "."))
    node = found[1].node if found is not None else None
    return found is not None and isinstance(node, ast.ClassDef) and not _never_ends(found[0], node)


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
