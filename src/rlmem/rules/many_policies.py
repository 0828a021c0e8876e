"""Every agent has a policy of its own.

RLlib builds each policy of ``multi_agent(policies=…)`` with its network, optimizer state, preprocessors and a dummy batch of 32
float32 observations, in the learner and again in every env runner that samples. Thirty-two policies take thirty-two times as much as
one that all agents share.

The rule counts policies that are written down or made by a comprehension over a known range; eight or more are mentioned for
information, thirty-two or more are a warning. A league needs its frozen opponents; agents that do the same do not.

Example::

    config.multi_agent(policies={f"agent_{i}": PolicySpec() for i in range(64)}, policy_mapping_fn=lambda agent, *_: agent)

Use instead: one policy for agents of a kind (``policy_mapping_fn=lambda agent, *_: "shared"``); opponents loaded when needed.

Fix: none.

Reference: ray-project/ray#24465; discuss.ray.io/t/23567.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.rules.base import Rule
from rlmem.rules.syntax import imports_any, method_calls, rounds
from rlmem.scripts import Script

SEVERAL, MANY = 8, 32


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """``.multi_agent(policies=…)`` and ``"multiagent": {"policies": …}`` with many of them."""
    if not imports_any(script, "ray"):
        return
    for given in _policies(script):
        count = _count(script, given)
        if count is not None and count >= SEVERAL:
            yield rule.finding(
                f"{count} policies are built, each with a network, optimizer state and dummy batches",
                severity="warning" if count >= MANY else "info",
                place=script.place(given),
                costs_per="policy",
                remedy="one policy for agents of a kind, through policy_mapping_fn",
            )


def _policies(script: Script) -> Iterator[ast.expr]:
    for call in method_calls(script, "multi_agent"):
        given = next((item.value for item in call.keywords if item.arg == "policies"), None)
        if given is not None:
            yield given
    for node in ast.walk(script.tree) if '"multiagent"' in script.text or "'multiagent'" in script.text else ():
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "policies":
                    yield value


def _count(script: Script, given: ast.expr) -> int | None:
    """How many policies there are, where they are written down or counted by a range."""
    found = script.definition(given)
    if isinstance(found, ast.Dict):
        return len(found.keys) + _added(script, given) if None not in found.keys else None
    if isinstance(found, (ast.Set, ast.List, ast.Tuple)):
        return None if any(isinstance(each, ast.Starred) for each in found.elts) else len(found.elts)
    if isinstance(found, (ast.DictComp, ast.SetComp, ast.ListComp)) and len(found.generators) == 1:
        over = found.generators[0]
        distinct = found.key if isinstance(found, ast.DictComp) else found.elt
        if over.ifs or isinstance(distinct, ast.Constant):
            return None
        if isinstance(over.iter, ast.Call) and isinstance(over.iter.func, ast.Name) and over.iter.func.id == "range":
            ends = [script.value(end) for end in over.iter.args]
            if ends and all(isinstance(end, int) and not isinstance(end, bool) for end in ends):
                return len(range(*ends))
        known = script.value(over.iter)
        return len(known) if isinstance(known, (list, tuple, dict, set)) else None
    return None


def _added(script: Script, given: ast.expr) -> int:
    """Policies that a loop of a known length puts into the dict one by one."""
    text = ast.unparse(given)
    written = [target for key, found in script.walked.item_values.items() if key is None for target, _ in found]
    return sum(rounds(script, script.loop_of(each)) or 0 for each in written if ast.unparse(each.value) == text)
