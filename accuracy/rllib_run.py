"""Plan and measure RLlib by role: ``python accuracy/rllib_run.py``, in an interpreter that has Ray (``make accuracy-rllib``).

What was measured stays in ``rllib.csv`` and is left alone unless ``--fresh`` is given; predictions are made anew every time.
``accuracy/run.py --write-docs`` writes the page from that file.
"""

from __future__ import annotations

import argparse
import sys
from datetime import date
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from accuracy.rllib_table import ALL, STORE, Row, error, judged, read, summary, write  # noqa: E402
from rlmem.budget import make_budget  # noqa: E402
from rlmem.frameworks.rllib.shares import by_role  # noqa: E402
from rlmem.planner import Planner  # noqa: E402
from rlmem.sources.target import parse_target  # noqa: E402
from rlmem.trace.rllib import describe_config  # noqa: E402
from rlmem.trace.rllib_truth import measure_config  # noqa: E402
from rlmem.units import GIB, format_size  # noqa: E402

CONFIGS = Path(__file__).with_name("rllib_configs.py")
SECONDS = 180.0


def names() -> list[str]:
    """The configurations, in the order of their file."""
    lines = CONFIGS.read_text(encoding="utf-8").splitlines()
    return [
        line.split(" = ")[0]
        for line in lines
        if " = " in line and line[0].isalpha() and not line.startswith(("import", "from"))
    ]


def measure(name: str) -> list[Row]:
    """Run one configuration; a row for each role and one for the whole."""
    found = measure_config(f"{CONFIGS}:{name}", sys.executable, cpus=8, store_bytes=2 * GIB, seconds=SECONDS)
    if found.status != "ok" or found.peak_bytes is None:
        print(f"{name}: {found.status}: {found.note}", file=sys.stderr)
        return []
    versions = " ".join(f"{key} {value}" for key, value in found.answer["versions"].items())
    common: dict[str, Any] = {
        "config": name,
        "rows": found.answer["rows"] or "",
        "iterations": found.answer["iterations"],
        "wall_s": round(found.wall_s),
        "versions": versions,
        "date": date.today().isoformat(),
    }
    rows = [
        {**common, "role": role.role, "count": role.count, "measured": role.nbytes, "anonymous": role.anonymous_bytes}
        for role in found.roles
    ]
    rows.append({**common, "role": STORE, "count": 1, "measured": found.store_bytes, "anonymous": 0})
    rows.append({**common, "role": ALL, "count": 1, "measured": found.peak_bytes, "anonymous": ""})
    return [{key: str(value) for key, value in row.items()} for row in rows]


def predict(name: str, rows: str) -> dict[str, tuple[int, int, int]]:
    """Low, expected and high of each role's largest phase, and of the whole; a buffer as full as it got."""
    sets = (f"buffer_size={rows}",) if rows else ()
    spec, _ = describe_config(parse_target(f"rllib:{CONFIGS}:{name}", sets=sets, python=sys.executable))
    plan = Planner(make_budget(ram="24GB")).plan(spec)
    found = by_role(plan.spec, plan.ledger)
    top = plan.top("ram")
    assert top is not None
    found[ALL] = (top.low_bytes, top.expected_bytes, top.high_bytes)
    return found


def compare(rows: list[Row], only: str) -> list[Row]:
    """Every measured row with its prediction; those not chosen as they were."""
    found: list[Row] = []
    for name in dict.fromkeys(row["config"] for row in rows):
        own = [row for row in rows if row["config"] == name]
        predicted = predict(name, own[0]["rows"]) if fnmatch(name, only) else {}
        for row in own:
            if row["role"] in predicted:
                low, expected, high = predicted[row["role"]]
                row = {**row, "low": str(low), "expected": str(expected), "high": str(high)}  # noqa: PLW2901
                if judged([row]):
                    sizes = [format_size(int(row[key])) for key in ("expected", "low", "high", "measured")]
                    print(
                        f"{name:22} {row['role']:16} {sizes[0]:>9} ({sizes[1]} to {sizes[2]}), measured {sizes[3]:>9}, {error(row):+.1f} %",
                        flush=True,
                    )
            found.append(row)
    return found


def main() -> None:
    """Measure what is missing (or chosen), predict everything, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="names of configurations, as a pattern")
    parser.add_argument("--fresh", action="store_true", help="measure again what is there already")
    parser.add_argument("--no-measure", action="store_true", help="predictions against what was measured before")
    options = parser.parse_args()
    rows = read()
    for name in names():
        there = any(row["config"] == name for row in rows)
        if options.no_measure or not fnmatch(name, options.only) or (there and not options.fresh):
            continue
        print(f"{name} …", file=sys.stderr, flush=True)
        new = measure(name)
        if new:
            rows = [row for row in rows if row["config"] != name] + new
            write(rows, names())
    write(compare(rows, options.only), names())
    print("\n".join(summary()))


if __name__ == "__main__":
    main()
