"""How long ``import rlmem`` and ``rlmem --help`` take, beside ``import numpy`` in the same interpreter.

Runs each in fresh processes, in turn, and prints the fastest and the median of each with its ratio to numpy. The goal is
a ratio under 2.5.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 15
COMMANDS = {
    "python -c 'import numpy'": [sys.executable, "-c", "import numpy"],
    "python -c 'import rlmem'": [sys.executable, "-c", "import rlmem"],
    "rlmem --help": [sys.executable, "-m", "rlmem", "--help"],
    "rlmem presets": [sys.executable, "-m", "rlmem", "presets"],
    "rlmem plan pidog-sac --ram 30GB": [sys.executable, "-m", "rlmem", "plan", "pidog-sac", "--ram", "30GB"],
}


def main() -> None:
    """Measure in turn, so that a busy moment hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            times[name].append(time.perf_counter() - start)
    reference = statistics.median(next(iter(times.values())))
    print(
        f"{'command':34} {'fastest':>9} {'median':>9} {'ratio':>7}   ({ROUNDS} rounds, Python {sys.version.split()[0]})"
    )
    for name, taken in times.items():
        median = statistics.median(taken)
        print(f"{name:34} {min(taken) * 1e3:7.0f}ms {median * 1e3:7.0f}ms {median / reference:6.2f}×")


if __name__ == "__main__":
    main()
