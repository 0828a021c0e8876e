"""Checkpoints are counted in callback calls, not timesteps.

A callback is called once per step of *all* environments, so ``save_freq`` calls are ``save_freq × n_envs`` timesteps.
With two environments checkpoints come half as often as a count in timesteps suggests.

Use instead: ``save_freq = max(timesteps // n_envs, 1)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule
from rlmem.schedule import schedule


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Fires when more than one environment makes the two counts differ."""
    plan = schedule(context.spec)
    if plan is None or plan.save_timesteps is None or plan.n_envs < 2:
        return
    wanted = (plan.save_calls or 0) // plan.n_envs
    yield rule.finding(
        f"save_freq {plan.save_calls:,} counts callback calls: a checkpoint every {plan.save_timesteps:,} "
        f"timesteps ({plan.save_iterations:g} iterations)",
        location="checkpoint.save_freq",
        remedy=f"save_freq={wanted:,} for one every {plan.save_calls:,} timesteps",
    )
