"""The rollout is not a multiple of the batch.

The last minibatch of every epoch is smaller: its gradient weighs as much as a full one's, and on a CPU its other
shape makes libraries keep a second set of buffers.

Use instead: a batch size that divides ``n_steps × n_envs``.

Reference: SB3's own warning in PPO.__init__; oneDNN#489 for the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.schedule import schedule
from rlmem.core.subject import Subject
from rlmem.frameworks.stream import is_stream
from rlmem.rules.base import Rule

#: Sizes tried on either side.
_FARTHEST = 100_000


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires on a remainder."""
    plan = schedule(subject.spec)
    # A swarm that keeps a stream adds its chunks' gradients up: a smaller last one weighs less.
    adds_up = subject.spec.get("framework.name") == "swarm" and is_stream(subject.spec)
    if plan and plan.remainder and not adds_up:
        nearest = _divisor_near(plan.samples, plan.batch)
        yield rule.finding(
            f"{plan.samples:,} samples are not a multiple of batch_size {plan.batch:,}: "
            f"the last minibatch has {plan.remainder:,}",
            location="batch_size",
            remedy=f"batch_size={nearest:,} divides the rollout"
            if nearest
            else "choose n_steps × n_envs with a divisor near it",
        )


def _divisor_near(samples: int, batch: int) -> int | None:
    """The divisor of ``samples`` nearest to ``batch``, if one lies within a factor of two."""
    for off in range(min(batch, _FARTHEST)):
        for size in (batch - off, batch + off):
            if batch <= 2 * size and samples % size == 0:
                return size
    return None
