"""Stacked frames are stored stacked.

With a stack of k frames, k − 1 of them are in the neighbouring rows already, so a stacked observation stores each
frame k times (2k times in a replay buffer with next observations).

Use instead: a store that keeps each frame once and stacks when a batch is taken. The saving is the difference to a
plan with such a store.

Reference: openai/baselines#295; DLR-RM/stable-baselines3#37; chainer/chainerrl#443.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires for any stored stack of two or more frames."""
    stack = context.spec.get("frame_stack", 1)
    if stack < 2 or context.spec.get("storage", "plain") != "plain":
        return
    changes = {"storage": "frames-once"}
    saves = context.saving(changes, "each frame once")
    if saves > 0:
        yield rule.finding(
            f"each frame is stored {stack} times because stacks of {stack} are stored whole",
            saves_bytes=saves or None,
            location="frame_stack",
            remedy="store single frames and stack them when sampling",
            changes=changes,
        )
