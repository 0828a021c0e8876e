"""The evaluation callback is created and never used.

It is not passed to ``learn``, so evaluation never happens, yet its environment is built and kept for the whole run.

Use instead: add the callback to the list that ``learn`` gets, or delete it and its environment.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when the description says the callback is not attached."""
    if not context.spec.get("eval.n_envs", 0) or context.spec.get("eval.attached", True):
        return
    changes = {"eval.n_envs": 0}
    saves = context.saving(changes, "no evaluation environment")
    yield rule.finding(
        "the evaluation callback is created but never passed to learn(): no evaluation happens",
        saves_bytes=saves or None,
        location="eval.attached",
        remedy="add it to the callback list, or remove it with its environment",
        changes=changes,
    )
