"""How long one plan takes inside a process: the closed form alone, and with every rule's own plans.

The goal is under 100 ms for both. Prints the median over many rounds for every preset.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

from rlmem.core.plan import Budget, Plan
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm, Planner
from rlmem.sources import load
from rlmem.sources.preset import PRESETS

ROUNDS = 20


def median_ms(make: Callable[[], Plan]) -> float:
    """The median time of making a plan."""
    taken = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        make()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e3


def main() -> None:
    """Every preset against a stated budget."""
    planner = Planner(Budget(name="bench", ram_bytes=30 * 10**9, vram_bytes=16 * 10**9, cores=2), Constants())
    print(
        f"{'preset':20} {'closed form':>12} {'with findings':>14}   ({ROUNDS} rounds, Python {sys.version.split()[0]})"
    )
    for name in PRESETS:
        spec = load(name)
        alone, whole = (
            median_ms(make)
            for make in (
                lambda spec=spec: ClosedForm(planner.constants).plan(spec, planner.budget),
                lambda spec=spec: planner.plan(spec),
            )
        )
        print(f"{name:20} {alone:10.1f}ms {whole:12.1f}ms")


if __name__ == "__main__":
    main()
