"""The update starts with a second copy of the rollout.

SB3's ``RolloutBuffer.get()`` swaps and flattens its arrays, one after the other. With two or more environments each
flattened array is a copy, so for a moment the largest array, the observations, exists twice. With one environment it is
a view.

Use instead: ``rollout_buffer_class=CompactRolloutBuffer`` of ``rlmem.sb3``, which takes minibatches without flattening
observations (and keeps stacked frames once). Otherwise keep the copy in mind when sizing ``n_steps × n_envs``.

Reference: ``swap_and_flatten`` in SB3's buffers.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules import once
from rlmem.rules.base import Rule
from rlmem.units import MIB, format_size

WORTH_BYTES = 256 * MIB


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when the flatten copy is part of the update's peak."""
    update = subject.plan.ledger.only(phase="update", component="rollout.flatten-copy")
    if update.nbytes < WORTH_BYTES:
        return
    changes = {"rollout.flatten_copy": False}
    saves = subject.saving(changes)
    swap = once.swap_for(subject)
    yield rule.finding(
        f"the update starts by flattening the rollout into a second copy ({format_size(update.nbytes)})",
        saves_bytes=saves or None,
        location="rollout.flatten-copy",
        remedy=(
            f"{swap.sentence}; shorter rollouts make the copy smaller"
            if swap
            else "a rollout buffer that indexes without flattening; shorter rollouts make the copy smaller"
        ),
        changes=changes,
    )
