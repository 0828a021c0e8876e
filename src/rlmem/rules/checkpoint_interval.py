"""Checkpoints are counted in callback calls, not timesteps.

A callback is called once per step of *all* environments, so ``save_freq`` calls are ``save_freq × n_envs`` timesteps.
With two environments checkpoints come half as often as a count in timesteps suggests.

Use instead: ``save_freq = max(timesteps // n_envs, 1)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.schedule import schedule
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Fires when more than one environment makes the two counts differ."""
    calls, n_envs = subject.spec.get("checkpoint.save_freq"), subject.spec.count("n_envs")
    if not calls or n_envs < 2:
        return
    plan = schedule(subject.spec)
    every = f" ({plan.save_iterations:.3g} iterations)" if plan and plan.save_iterations else ""
    yield rule.finding(
        f"save_freq {calls:,} counts callback calls: a checkpoint every {calls * n_envs:,} timesteps{every}",
        location="checkpoint.save_freq",
        remedy=f"save_freq={max(calls // n_envs, 1):,} for one every {calls:,} timesteps",
    )
