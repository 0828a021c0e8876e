"""The replay buffer stores every observation twice.

``next_observations[t]`` is ``observations[t + 1]`` everywhere except at episode ends, and still has an array of its
own. Storing it once halves the observation bytes.

SB3 offers ``optimize_memory_usage=True`` with ``handle_timeout_termination=False`` for plain Box observations, at a
price: every truncated transition then gets the next episode's first observation as its successor. It refuses the
option for Dict observations, n-step and HER. A buffer that keeps the true final observation beside the shared array
has neither limit.

Reference: DLR-RM/stable-baselines3#37, #934; rail-berkeley/softlearning#65.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.frameworks.sb3.refusals import sharing_refused
from rlmem.rules.base import Context, Rule
from rlmem.units import MIB

WORTH_BYTES = 16 * MIB


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when the ledger has an array of next observations."""
    if not context.plan.ledger.only(component="replay.next_observations").entries:
        return
    changes = {"optimize_memory_usage": True, "handle_timeout_termination": False}
    saves = context.saving(changes, "next observations once")
    if saves < WORTH_BYTES:
        return
    reason = sharing_refused(context.spec)
    if reason:
        remedy = f"use a buffer that stores next observations once; the framework's own option is refused: {reason}"
    else:
        remedy = (
            "optimize_memory_usage=True with replay_buffer_kwargs={'handle_timeout_termination': False}; "
            "the successor of a truncated step is then wrong"
        )
    yield rule.finding(
        "next observations are stored in an array of their own",
        saves_bytes=saves or None,
        location="replay.next_observations",
        remedy=remedy,
        changes={} if reason else changes,
    )
