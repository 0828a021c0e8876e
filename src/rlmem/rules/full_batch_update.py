"""The whole rollout goes through the network as one batch.

Activations are kept per *sample*. One batch over all steps of all agents keeps every layer's activations for every
sample at once; minibatches keep them for one minibatch.

Use instead: minibatches, with gradients accumulated if the update must stay the same.

Reference: DLR-RM/stable-baselines3#863, #1630.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule
from rlmem.schedule import schedule
from rlmem.units import MIB

#: One batch of a small rollout (A2C's 5 steps) is how the algorithm works; below this it is not worth a word.
WORTH_BYTES = 64 * MIB
#: No smaller minibatch is suggested.
SMALLEST = 32


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when one batch holds the rollout and smaller ones would save something worth having."""
    plan = schedule(context.spec)
    if plan is None or plan.minibatches > 1 or plan.samples <= SMALLEST or plan.with_replacement:
        return
    smaller = max(plan.samples // 64, SMALLEST)
    changes = {"batch_size": smaller}
    saves = context.saving(changes, "minibatches")
    if saves > WORTH_BYTES:
        yield rule.finding(
            f"one update is a single batch of {plan.samples:,} samples, activations and all",
            saves_bytes=saves or None,
            location="batch_size",
            remedy=f"minibatches, for example batch_size={smaller:,}",
            changes=changes,
        )
