"""The batch is larger than the rollout.

A shuffled minibatch cannot hold more samples than were collected: the framework silently uses the whole rollout as one
batch, and every epoch is a single gradient step. Where batches are drawn with replacement (ElegantRL) the batch is
really that large and holds every sample several times.

Use instead: a batch size that divides ``n_steps × n_envs``.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.schedule import schedule
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Compares the batch asked for with the samples of one iteration."""
    plan = schedule(subject.spec)
    asked = subject.spec.get("batch_size")
    if not plan or not asked or asked <= plan.samples:
        return
    if plan.with_replacement:
        yield rule.finding(
            f"a batch of {asked:,} is drawn with replacement from {plan.samples:,} samples: each appears "
            f"{asked / plan.samples:.1f} times on average",
            severity="info",
            location="batch_size",
            remedy=f"a batch of {plan.samples:,} holds the same information in less memory",
        )
    else:
        yield rule.finding(
            f"batch_size {asked:,} is larger than the {plan.samples:,} samples of a rollout",
            location="batch_size",
            remedy=f"at most {plan.samples:,}, and a divisor of it",
        )
