"""A sliding history is stored whole at every step.

An observation that is a window over a stream shares almost all of its samples with the one before: of 300 samples
290 are the same after a step that appends 10. Storing every window stores the stream dozens of times.

Use instead: store the stream once and cut the windows out when a batch is taken. In an SB3 run the compact buffers of
``rlmem.sb3`` do: a window is a stack of steps along its first axis, recognised from the data or declared
(``replay_buffer_kwargs={"stack": 30}``). Values that do not slide need a key of their own, so that the window is an
array by itself.

Reference: "Store observation windows once, not per rollout step" (TorchTrade #440).
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.frameworks.sb3.compact import is_compact
from rlmem.rules import once
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires for window observations kept whole."""
    window = context.spec.window
    if window is None or window.length <= window.step:
        return
    storage = context.spec.get("storage", "plain")
    if storage == "stream" or (is_compact(context.spec) and not window.extra):
        return
    changes = {"storage": "stream"}
    saves = context.saving(changes, "the stream once")
    shared = window.length - window.step
    swap = once.swap_for(context)
    remedy = "store the stream once and cut windows out of it per minibatch"
    if swap and saves > 0:
        alone = f"with the {window.extra} other values in a key of their own" if window.extra else ""
        remedy = once.remedy(context, swap, changes, also=alone)
    yield rule.finding(
        f"consecutive windows share {shared} of {window.length} samples and are stored whole",
        saves_bytes=saves or None,
        location="history",
        remedy=remedy,
        changes=changes,
    )
