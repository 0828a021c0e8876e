"""There are more threads than cores.

Threads beyond the cores only wait. They cost little memory: a stack reserves 8 MiB of address space but only the
touched pages are resident, tens of KiB for an idle thread. What can add up is one malloc arena per thread.

In a script, the rule fires (for information) when eight workers or more start and nothing limits the threads that torch and BLAS
open in each of them: every worker gets as many as there are cores.

Example::

    env = SubprocVecEnv([make_env(i) for i in range(16)])      # and no OMP_NUM_THREADS anywhere

Use instead: ``OMP_NUM_THREADS`` and ``torch.set_num_threads`` at or below the cores, 1 in workers; do not expect memory back.

Fix: none.

Reference: DLR-RM/stable-baselines3#283.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlmem.core.findings import Finding
from rlmem.core.subject import Subject
from rlmem.rules.base import Rule
from rlmem.rules.workers import with_workers
from rlmem.scripts import Script
from rlmem.units import format_size

#: Workers from which on threads are worth a word.
MANY = 8
_LIMITS = re.compile(r"(OMP|MKL|OPENBLAS|NUMEXPR)_NUM_THREADS|set_num_threads|threadpool|MALLOC_ARENA_MAX")


def check(rule: Rule, subject: Subject) -> Iterator[Finding]:
    """Needs a thread count in the description and a core count in the budget."""
    threads, cores = subject.spec.get("threads"), subject.plan.budget.cores
    if not threads or not cores or threads <= cores:
        return
    changes = {"threads": cores}
    saves = subject.saving(changes)
    yield rule.finding(
        f"{threads} threads on {cores} cores; their stacks hold {format_size(max(saves, 0))}, not gigabytes",
        saves_bytes=max(saves, 0),
        location="threads",
        remedy=f"torch.set_num_threads({cores}), for speed rather than memory",
        changes=changes,
    )


def check_script(rule: Rule, script: Script) -> Iterator[Finding]:
    """Many workers, and no word about threads in the file."""
    # TorchRL gives each of its workers one thread already.
    crowds = [each for each in with_workers(script) if (each.n_envs or 0) >= MANY and each.kind != "parallel"]
    if crowds and not _LIMITS.search(script.text):
        yield rule.finding(
            f"{crowds[0].n_envs} workers start, and each may open as many threads as there are cores",
            place=script.place(crowds[0].call),
            remedy='os.environ["OMP_NUM_THREADS"] = "1" before torch and numpy are imported',
        )
