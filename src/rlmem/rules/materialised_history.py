"""A sliding history is stored whole at every step.

An observation that is a window over a stream shares almost all of its samples with the one before: of 300 samples
290 are the same after a step that appends 10. Storing every window stores the stream dozens of times.

Use instead: store the stream once and cut the windows out when a batch is taken.

Reference: "Store observation windows once, not per rollout step" (TorchTrade #440).
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires for window observations kept whole."""
    window = context.spec.window
    if window is None or window.length <= window.step or context.spec.get("storage", "plain") == "stream":
        return
    changes = {"storage": "stream"}
    saves = context.saving(changes, "the stream once")
    shared = window.length - window.step
    yield rule.finding(
        f"consecutive windows share {shared} of {window.length} samples and are stored whole",
        saves_bytes=saves or None,
        location="history",
        remedy="store the stream once and cut windows out of it per minibatch",
        changes=changes,
    )
