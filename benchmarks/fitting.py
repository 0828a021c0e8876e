"""The reference runs, and two defaults that cannot start on a 24 GB machine, made to fit and really run.

Each is given less memory than it needs; ``rlmem fit --verify`` chooses the steps and measures before and after in fresh
processes, with the budget as the cap. Prints one row a run; ``--write-docs`` puts the table into docs/fit.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from rlmem.units import format_size

DOCS = Path(__file__).parents[1] / "docs" / "fit.md"
SCRIPTS = Path(__file__).parents[1] / "accuracy" / "scripts"
#: What to fit, and into how much. The first five are the reference runs (docs/five-runs.md); the images of the third go through
#: its network on a CPU here, so that its rollout is cut to what that does in minutes.
RUNS: tuple[tuple[str, ...], ...] = (
    ("pidog-sac", "--ram", "12GB"),
    ("pidog-td3", "--ram", "8GB"),
    ("pyboy-ppo", "--ram", "2GB", "--set", "device=cpu", "--set", "n_steps=512", "--set", "batch_size=256"),
    ("drone-swarm", "--ram", "8GB"),
    ("crypto-ppo", "--ram", "600MB"),
    ("zoo:qrdqn/PongNoFrameskip-v4", "--ram", "16GB"),
    (str(SCRIPTS / "dqn_atari.py"), "--ram", "8GB", "--", "--learning-starts", "2000"),
)
_TABLE = re.compile(r"(?<=<!-- fits -->\n).*?(?=<!-- end -->)", re.DOTALL)


def fitted(run: tuple[str, ...], python: str | None) -> dict[str, Any]:
    """The document of one ``rlmem fit``."""
    where = list(run).index("--") if "--" in run else len(run)
    chosen = ["--python", python] if python else []
    command = [sys.executable, "-m", "rlmem", "fit", *run[:where], *chosen, "--verify", "--json", *run[where:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise SystemExit(f"{' '.join(run)}: {done.stderr.strip()}")
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def row(run: tuple[str, ...], document: dict[str, Any]) -> str:
    """One line of the table."""
    words = [Path(run[0]).name if run[0].endswith(".py") else run[0], *run[1:]]
    steps = "; ".join(f"{step['name']} ({step['kind']})" for step in document["steps"]) or "none needed"
    verified = document["verified"] or {}
    return (
        f"| `{' '.join(words)}` | {_peak(document['before'])} | {steps} | {_peak(document['after'])} | "
        f"{_measured(verified.get('before'))} | {_measured(verified.get('after'))} |"
    )


def _peak(plan: dict[str, Any] | None) -> str:
    tops = [peak for peak in (plan or {}).get("peaks", ()) if peak["device"] == "ram"]
    return format_size(tops[0]["expected_bytes"]) if tops else "–"


def _measured(point: dict[str, Any] | None) -> str:
    if not point:
        return "not measured"
    if point["status"] != "ok":
        return "out of memory" if point["status"] == "oom" else str(point["status"])
    return format_size(point["peak_bytes"])


def main() -> None:
    """Fit and measure, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="Runs whose name contains this.")
    parser.add_argument("--python", help="The interpreter with SB3, ElegantRL, rl_zoo3 and ALE. Default: this one.")
    parser.add_argument("--write-docs", action="store_true")
    options = parser.parse_args()
    lines = [
        "| run and budget | needs | steps | needs then | measured before | measured after |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for run in RUNS:
        if not options.only or options.only in run[0]:
            lines.append(row(run, fitted(run, options.python)))
            print(lines[-1], flush=True)
    if options.write_docs and not options.only:
        page = DOCS.read_text(encoding="utf-8")
        DOCS.write_text(_TABLE.sub(lambda _: "\n".join(lines) + "\n", page), encoding="utf-8")


if __name__ == "__main__":
    main()
