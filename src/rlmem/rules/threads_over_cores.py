"""There are more threads than cores.

Threads beyond the cores only wait. They cost little memory: a stack reserves 8 MiB of address space but only the
touched pages are resident, tens of KiB for an idle thread. What can add up is one malloc arena per thread.

Use instead: ``OMP_NUM_THREADS`` and ``torch.set_num_threads`` at or below the cores; do not expect memory back.

Reference: DLR-RM/stable-baselines3#283.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlmem.findings import Finding
from rlmem.rules.base import Context, Rule
from rlmem.units import format_size


def check(rule: Rule, context: Context) -> Iterator[Finding]:
    """Needs a thread count in the description and a core count in the budget."""
    threads, cores = context.spec.get("threads"), context.plan.budget.cores
    if not threads or not cores or threads <= cores:
        return
    changes = {"threads": cores}
    saves = context.saving(changes, "threads = cores")
    yield rule.finding(
        f"{threads} threads on {cores} cores; their stacks hold {format_size(max(saves, 0))}, not gigabytes",
        saves_bytes=max(saves, 0),
        location="threads",
        remedy=f"torch.set_num_threads({cores}), for speed rather than memory",
        changes=changes,
    )
