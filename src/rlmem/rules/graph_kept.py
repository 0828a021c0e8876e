"""Collection keeps the autograd graph.

Log-probabilities and values kept from a forward pass with gradients on hold the whole graph of that pass: every
activation of every step stays until the rollout is dropped, for gradients nobody asks for.

Use instead: ``with torch.no_grad():`` around collection, or ``.detach()`` on what is kept.

Reference: ray-project/ray#6962; oxwhirl/pymarl#73; Kaixhin/Rainbow#33.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when the description says so."""
    if not context.spec.flag("rollout.keeps_graph"):
        return
    changes = {"rollout.keeps_graph": False}
    yield rule.finding(
        "collection runs with gradients on and keeps the graph of every step",
        saves_bytes=context.saving(changes, "no_grad") or None,
        location="rollout.keeps_graph",
        remedy="wrap collection in torch.no_grad()",
        changes=changes,
    )
