"""Predicted against measured peaks of real SB3 runs, one fresh process each, as a Markdown table.

The cases are those of ``tests/cases/test_truth.py``. Needs the ``truth`` extra (``make bench`` installs it).
"""

from __future__ import annotations

import platform
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "cases")]

from test_truth import CASES, peak, spec_of  # noqa: E402  # the path is set just above

from truth import predicted, run_truth, sb3_case  # noqa: E402  # likewise


def main() -> None:
    """Every case once."""
    print("| run | predicted (range), MB | measured, MB | error |")
    print("| --- | ---: | ---: | ---: |")
    errors: list[float] = []
    versions = {}
    for name, case in CASES.items():
        spec = spec_of(case)
        top = peak(predicted(spec), "update")
        truth = run_truth("sb3_run.py", sb3_case(spec))
        versions = truth["versions"]
        measured = truth["phases"]["update"]["hwm"]
        errors.append(100 * (top.expected_bytes / measured - 1))
        low, expected, high = (f"{n / 1e6:,.0f}" for n in (top.low_bytes, top.expected_bytes, top.high_bytes))
        print(f"| {name} | {expected} ({low}–{high}) | {measured / 1e6:,.0f} | {errors[-1]:+.1f} % |", flush=True)
    worst = max(map(abs, errors))
    print(f"\nMedian error {statistics.median(map(abs, errors)):.1f} %, largest {worst:.1f} %, {len(errors)} runs.")
    print(f"{platform.system()} {platform.release()}, {', '.join(f'{k} {v}' for k, v in versions.items() if v)}.")


if __name__ == "__main__":
    main()
