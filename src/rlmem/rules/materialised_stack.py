"""Stacked frames are stored stacked.

With a stack of k frames, k − 1 of them are in the neighbouring rows already, so a stacked observation stores each
frame k times (2k times in a replay buffer with next observations).

Use instead: a buffer that keeps each frame once and stacks when a batch is taken. For SB3 that is
``replay_buffer_class=CompactReplayBuffer`` or ``rollout_buffer_class=CompactRolloutBuffer`` of ``rlmem.sb3``: stacks of
VecFrameStack and of Gymnasium's FrameStackObservation are recognised from the data, resets and padding are exact.

Reference: openai/baselines#295; DLR-RM/stable-baselines3#37; chainer/chainerrl#443.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.frameworks.sb3.compact import depths, is_compact
from rlmem.rules import once
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires for any stored stack of two or more frames."""
    stack = max(depths(context.spec).values(), default=1)
    if stack < 2 or context.spec.window or is_compact(context.spec):
        return
    saves = context.saving(once.CHANGES, once.WHY)
    if saves <= 0:
        return
    swap = once.swap_for(context)
    twice = bool(context.plan.ledger.only(component="replay.next_observations").entries)
    because = ", and so are next observations" if twice else ""
    yield rule.finding(
        f"each frame is stored {2 * stack if twice else stack} times because stacks of {stack} are stored whole{because}",
        saves_bytes=saves,
        location="frame_stack" if context.spec.get("frame_stack", 1) > 1 else "observation",
        remedy=once.remedy(context, swap) if swap else "store single frames and stack them when sampling",
        changes=once.CHANGES,
    )
