"""Evaluation keeps environments of its own, all the time.

The evaluation environments are built beside the training ones and live until the run ends, not only while they are
used. As many of them as training environments double that part of the memory.

Use instead: one evaluation environment, or build it for an evaluation and close it after.

Reference: huggingface/lerobot#3274; TensorAuto/OpenTau#419.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when evaluation has as many environments as training, and more than one."""
    evaluation, training = context.spec.get("eval.n_envs", 0), context.spec.count("n_envs")
    if evaluation < max(training, 2):
        return
    changes = {"eval.n_envs": 1}
    yield rule.finding(
        f"{evaluation} evaluation environments stand beside {training} training ones for the whole run",
        saves_bytes=context.saving(changes, "one evaluation environment") or None,
        location="eval.n_envs",
        remedy="one evaluation environment is enough for a mean over episodes",
        changes=changes,
    )
