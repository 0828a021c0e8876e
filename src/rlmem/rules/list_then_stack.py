"""Observations are collected in a list and then stacked.

``torch.stack`` copies the list into a new tensor while the list still lives: two copies of every observation. A list
of small tensors also pays for every object: a transition of a few hundred bytes takes well over a thousand.

Use instead: allocate the rollout once and write rows into it.

Reference: thu-ml/tianshou#225; vwxyzjn/cleanrl#35.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires for both list forms."""
    store = context.spec.get("rollout.store", "array")
    if store == "array":
        return
    changes = {"rollout.store": "array"}
    saves = context.saving(changes, "one preallocated array")
    what = (
        "cloned into a list and then stacked, two copies"
        if store == "list-then-stack"
        else "kept as a list of small tensors"
    )
    yield rule.finding(
        f"the rollout is {what}",
        saves_bytes=saves or None,
        location="rollout.store",
        remedy="allocate the rollout once and write rows into it",
        changes=changes,
    )
