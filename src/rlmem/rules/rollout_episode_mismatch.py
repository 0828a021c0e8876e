"""The rollout is much longer, or much shorter, than an episode.

A rollout many episodes long holds data that one update does not need; memory is linear in its length. One much
shorter than an episode bootstraps almost every return. Neither is wrong, both deserve a look.

Use instead: rollouts of one to four episodes per environment, unless returns need more.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule

#: More episodes per rollout than this, or fewer than its inverse, is worth a remark.
FAR = 5


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Needs ``episode_length`` in the description."""
    length = subject.spec.get("episode_length")
    steps = subject.spec.get("n_steps")
    if not length or not steps or "buffer_size" in subject.spec:
        return
    if steps > FAR * length:
        shorter = 2 * length // 256 * 256 if length >= 256 else 2 * length
        changes = {"n_steps": shorter}
        yield rule.finding(
            f"a rollout of {steps:,} steps spans {steps / length:.1f} episodes of {length:,} steps",
            saves_bytes=subject.saving(changes) or None,
            location="n_steps",
            remedy=f"n_steps={shorter:,} is about two episodes; learning changes, so try it",
            changes=changes,
        )
    elif steps * FAR < length:
        yield rule.finding(
            f"a rollout of {steps:,} steps is {steps / length:.2f} of an episode of {length:,} steps",
            location="n_steps",
            remedy="longer rollouts bootstrap less; memory grows in proportion",
        )
