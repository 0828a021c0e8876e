"""The replay buffer stores every observation twice.

``next_observations[t]`` is ``observations[t + 1]`` everywhere except at episode ends, and still has an array of its
own. Storing it once halves the observation bytes.

Use instead: ``from rlmem.sb3 import CompactReplayBuffer``, then ``replay_buffer_class=CompactReplayBuffer`` (in a loop
of your own, in place of SB3's class). It keeps the true final observation of every episode, takes Dict observations,
n-step, prioritised and hindsight replay, and returns the same bits as SB3's buffers with the same seed.
``replay_buffer_kwargs={"codec": "auto"}`` compresses what compresses; how much that is depends on the data, so a
plan of your script samples it, and a description alone cannot say.

SB3's own ``optimize_memory_usage=True`` with ``handle_timeout_termination=False`` saves about as much for plain Box
observations, but every truncated transition then gets the next episode's first observation as its successor: wrong
targets at every time limit. SB3 refuses it for Dict observations, n-step and HER.

Reference: DLR-RM/stable-baselines3#37, #934; rail-berkeley/softlearning#65.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.frameworks.sb3.compact import depths
from rlmem.rules import once
from rlmem.rules.base import Context, Rule
from rlmem.units import MIB

WORTH_BYTES = 16 * MIB


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when the ledger has an array of next observations; stacks and windows have rules of their own."""
    if not context.plan.ledger.only(component="replay.next_observations").entries or depths(context.spec):
        return
    swap = once.swap_for(context)
    saves = context.saving(once.CHANGES, once.WHY)
    if swap is None or saves < WORTH_BYTES:
        return
    yield rule.finding(
        "next observations are stored in an array of their own",
        saves_bytes=saves,
        location="replay.next_observations",
        remedy=once.remedy(context, swap),
        changes=once.CHANGES,
    )
