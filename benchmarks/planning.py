"""How long one plan takes inside a process: the closed form alone, and with every rule's own plans.

The goal is under 100 ms for both. Prints the median over many rounds for every preset.
"""

from __future__ import annotations

import statistics
import sys
import time

from rlmem.model.constants import Constants
from rlmem.plan import Budget
from rlmem.planner import Planner
from rlmem.sources import load
from rlmem.sources.preset import PRESETS

ROUNDS = 20


def main() -> None:
    """Every preset against a stated budget."""
    planner = Planner(Budget(name="bench", ram_bytes=30 * 10**9, vram_bytes=16 * 10**9, cores=2), Constants())
    print(
        f"{'preset':20} {'closed form':>12} {'with findings':>14}   ({ROUNDS} rounds, Python {sys.version.split()[0]})"
    )
    for name in PRESETS:
        spec = load(name)
        taken: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for findings, times in taken.items():
                start = time.perf_counter()
                planner.plan(spec, findings=findings)
                times.append(time.perf_counter() - start)
        alone, whole = (statistics.median(times) * 1e3 for times in taken.values())
        print(f"{name:20} {alone:10.1f}ms {whole:12.1f}ms")


if __name__ == "__main__":
    main()
