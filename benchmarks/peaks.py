"""Predicted against measured peaks of real SB3 runs, one fresh process each, as a Markdown table.

Two sets: the cases of ``tests/cases/test_truth.py``, which some constants were set by, and runs that none was. Needs the ``truth`` extra (``make bench`` installs it).
"""

from __future__ import annotations

import platform
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "cases")]

from test_truth import CASES, peak, spec_of  # noqa: E402  # the path is set just above

from truth import predicted, run_truth, sb3_case  # noqa: E402  # likewise

PIXELS = {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}
STACKS = {"type": "box", "shape": [84, 84, 4], "dtype": "uint8"}
REACH, KEYS = {"type": "box", "shape": [3]}, {"type": "discrete", "n": 4}
CAMERA = {"type": "dict", "spaces": {"image": PIXELS, "v": {"type": "box", "shape": [4]}}}
MODE = {"type": "dict", "spaces": {"image": PIXELS, "d": {"type": "discrete", "n": 10}}}
SHARED = "network.share_features_extractor"
#: Chosen by a reviewer after the constants were set; nothing was adjusted to them.
OTHERS: dict[str, dict[str, Any]] = {
    "sac on images, batch 256": {"algorithm": "sac", "observation": PIXELS, "action": REACH, "buffer_size": 3000,
                                 "batch_size": 256},
    "td3 on a Dict, shared": {"algorithm": "td3", "observation": CAMERA, "action": REACH, "buffer_size": 2000,
                              "batch_size": 256, SHARED: True},
    "ddpg on a Dict": {"algorithm": "ddpg", "observation": CAMERA, "action": REACH, "buffer_size": 2000, "batch_size": 256},
    "ppo on flattened images": {"algorithm": "ppo", "observation": PIXELS, "action": KEYS, "n_envs": 4, "n_steps": 512,
                                "batch_size": 2048, "n_epochs": 1, "network.extractor": "flatten"},
    "recurrent ppo on images": {"algorithm": "recurrent_ppo", "observation": PIXELS, "action": KEYS, "n_envs": 4,
                                "n_steps": 128, "batch_size": 128, "n_epochs": 1},
    "ppo, wide MLP, one batch": {"algorithm": "ppo", "observation": {"type": "box", "shape": [300], "dtype": "float64"},
                                 "action": REACH, "n_envs": 8, "n_steps": 2048, "batch_size": 16384, "n_epochs": 1,
                                 "network.net_arch": [1024, 1024]},
    "a2c on images, 16 × 64": {"algorithm": "a2c", "observation": STACKS, "action": KEYS, "n_envs": 16, "n_steps": 64},
    "ppo on a Dict, separate": {"algorithm": "ppo", "observation": MODE, "action": KEYS, "n_envs": 2, "n_steps": 256,
                                "batch_size": 512, "n_epochs": 1, SHARED: False},
}  # fmt: skip


def table(cases: dict[str, dict[str, Any]]) -> None:
    """Every case once."""
    print("| run | predicted (range), MB | measured, MB | error |")
    print("| --- | ---: | ---: | ---: |")
    errors: list[float] = []
    for name, case in cases.items():
        spec = spec_of(case)
        top = peak(predicted(spec), "update")
        measured = run_truth("sb3_run.py", sb3_case(spec))["phases"]["update"]["hwm"]
        errors.append(100 * (top.expected_bytes / measured - 1))
        low, expected, high = (f"{n / 1e6:,.0f}" for n in (top.low_bytes, top.expected_bytes, top.high_bytes))
        print(f"| {name} | {expected} ({low}–{high}) | {measured / 1e6:,.0f} | {errors[-1]:+.1f} % |", flush=True)
    sizes = [abs(error) for error in errors]
    print(f"\nMedian error {statistics.median(sizes):.1f} %, largest {max(sizes):.1f} %, {len(sizes)} runs.\n")


def main() -> None:
    """Both sets, or only the second with ``others``."""
    if "others" not in sys.argv:
        table(CASES)
    table(OTHERS)
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}.")


if __name__ == "__main__":
    main()
