"""Plan and measure the corpus; results add up in ``results.csv``, and ``docs/accuracy.md`` is written from it.

    python accuracy/run.py --shard 1/6 --write-docs
    python accuracy/run.py --only 'zoo:sac/*' --fresh --python ~/envs/train/bin/python

An entry that has a plan and a measurement is left alone unless ``--fresh`` is given, so an interrupted run goes on where
it stopped.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from accuracy import corpus, report, results, truth  # noqa: E402  # the path is set just above
from rlmem.runner.child import run_child  # noqa: E402  # likewise
from rlmem.units import parse_size  # noqa: E402  # likewise

#: No plan may need more; the goal for a trace is 1.5 GiB, and what is above it is to be seen.
PLAN_CAP = 6 * 2**30


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shard", metavar="K/N", help="only part K of N")
    parser.add_argument("--only", metavar="GLOB", help="only entries whose id matches")
    parser.add_argument("--fresh", action="store_true", help="do again what is there already")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the runs (default: this one)")
    parser.add_argument("--what", choices=("both", "plans", "truth"), default="both", help="which side to do")
    parser.add_argument("--cap", default="12GB", help="measurements above this are not made (default: 12GB)")
    parser.add_argument("--time-limit", type=float, default=1800, help="seconds a measurement may take")
    parser.add_argument("--results", type=Path, default=results.PATH, help="the CSV (default: accuracy/results.csv)")
    parser.add_argument("--write-docs", action="store_true", help="write docs/accuracy.md afterwards")
    parser.add_argument("--list", action="store_true", help="only list the entries")
    return parser.parse_args()


def plan(entry: corpus.Entry, python: str) -> results.Row:
    """Plan an entry as a user would, in a process of its own; the time and memory of all of it."""
    with tempfile.TemporaryDirectory(prefix="accuracy-") as name:
        output = Path(name) / "plan.json"
        target, *rest = entry.plan()
        options = ["--json", "--output", str(output), "--ram", "1TB", "--python", python]
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        outcome = run_child(
            [sys.executable, "-m", "rlmem", "plan", target, *options, *rest],
            cwd=name, env=env, cap_bytes=PLAN_CAP, time_limit_s=600,
        )  # fmt: skip
        row = {
            **dict.fromkeys(("low", "expected", "high"), ""),
            "plan_s": f"{outcome.wall_s:.1f}",
            "trace_peak": str(outcome.peak.pss_bytes),
            "plan_date": datetime.date.today().isoformat(),
            "plan_status": "ok",
        }
        if not output.exists() or outcome.returncode not in (0, 1):
            lines = (outcome.stderr.strip() or outcome.stdout.strip()).splitlines()
            said = next((line for line in lines if "rror" in line), lines[-1] if lines else "")
            return {**row, "plan_status": f"{outcome.status} ({outcome.returncode}): {said[:300]}"}
        peak = next(
            each for each in json.loads(output.read_text())["peaks"] if each["is_peak"] and each["device"] == "ram"
        )
        return row | {name: str(peak[f"{name}_bytes"]) for name in ("low", "expected", "high")}


def measure(entry: corpus.Entry, args: argparse.Namespace, versions: str) -> results.Row:
    """Measure an entry."""
    found = truth.measure(entry, python=args.python, cap_bytes=parse_size(args.cap), time_limit_s=args.time_limit)
    cells = {
        "measured": found.peak_bytes,
        "hwm": found.hwm_bytes,
        "imported": found.imported_bytes,
        "processes": found.processes,
        **{name: found.report.get(name) for name in ("rows", "capacity")},
        "updates": found.report.get("updates") if found.report.get("algorithm") else None,  # of SB3 alone
    }
    row = {name: "" if value is None else str(value) for name, value in cells.items()}
    return row | {
        "truth_s": f"{found.wall_s:.1f}",
        "truth_status": found.status,
        "note": found.note,
        "versions": versions,
        "truth_date": datetime.date.today().isoformat(),
    }


def update(path: Path, order: list[str], entry: corpus.Entry, cells: results.Row) -> results.Row:
    """Put cells into an entry's row; other processes may be doing the same with other rows."""
    with open(corpus.PATH) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = results.read(path)
        base = {"id": entry.id, "kind": entry.kind, "algorithm": entry.algorithm, "family": entry.family}
        rows[entry.id] = results.with_errors({**rows.get(entry.id, {}), **base, **cells})
        results.write(rows, order, path)
        return rows[entry.id]


def in_megabytes(row: results.Row, name: str) -> str:
    """A cell for the progress line."""
    value = results.number(row, name)
    return "–" if value is None else f"{value / 1e6:,.0f}"


def main() -> int:
    """Do the chosen entries one after the other."""
    args = parse()
    everything = corpus.load()
    order = [entry.id for entry in everything]
    try:
        chosen = corpus.shard(corpus.only(everything, args.only), args.shard)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if args.list:
        for entry in chosen:
            print(f"{entry.id:48} {entry.command}")
        return 0
    versions = " ".join(f"{name} {version}" for name, version in truth.versions(args.python).items())
    steps: list[tuple[str, str, Callable[[corpus.Entry], results.Row]]] = []
    if args.what != "truth":
        steps.append(("plan", "plan_status", lambda entry: plan(entry, args.python)))
    if args.what != "plans":
        steps.append(("truth", "truth_status", lambda entry: measure(entry, args, versions)))
    failed = 0
    for index, entry in enumerate(chosen, 1):
        row = results.read(args.results).get(entry.id, {})
        for _, status, step in steps:
            if args.fresh or row.get(status) != "ok":
                row = update(args.results, order, entry, step(entry))
        bad = [
            f"{name}: {row[status]} {row['note'] if name == 'truth' else ''}"
            for name, status, _ in steps
            if row.get(status) != "ok"
        ]
        failed += bool(bad)
        sizes = ", ".join(f"{name} {in_megabytes(row, name)}" for name in ("low", "expected", "high", "measured"))
        off = f", error {row['error_pct']} %" if row.get("error_pct") else ""
        times = f"plan {row.get('plan_s') or '–'} s, truth {row.get('truth_s') or '–'} s"
        print(f"[{index}/{len(chosen)}] {entry.id}: {sizes} MB{off}; {times} {' '.join(bad)}".rstrip(), flush=True)
    if args.write_docs:
        rows, page, readme = results.read(args.results), ROOT / "docs" / "accuracy.md", ROOT / "README.md"
        page.write_text(report.page(rows, everything, corpus.causes(), corpus.dropped()))
        readme.write_text(report.put_into(readme.read_text(), report.summary(rows, everything)))
        print("wrote docs/accuracy.md and its table in README.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
