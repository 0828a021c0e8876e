"""The same task in Stable-Baselines3, a CleanRL-like loop, ElegantRL and RLlib: what each holds at its peak, and who holds it.

    python benchmarks/frameworks.py --write-docs           # about ten minutes on two cores; writes docs/frameworks.md
    python benchmarks/frameworks.py --only 'atari:rllib-*'
    python benchmarks/frameworks.py --render --write-docs  # measure nothing; the page again from frameworks.csv

Every row is a training script as its users write it, run to its end in a fresh process and watched from outside: the whole
tree, shared pages once. Needs an interpreter with all four frameworks ('make frameworks' sets one up).
"""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]

from framework_bench import results, tables  # noqa: E402  # the path is set just above
from framework_bench.cases import CASES, Case  # noqa: E402  # likewise
from framework_bench.census import MAIN, OTHER, WORKER, Census  # noqa: E402  # likewise

from rlmem.core.roles import RAY  # noqa: E402  # likewise
from rlmem.runner.child import run_child  # noqa: E402  # likewise
from rlmem.units import format_size  # noqa: E402  # likewise

PAGE = ROOT / "docs" / "frameworks.md"
PACKAGES = ("torch", "numpy", "gymnasium", "stable_baselines3", "elegantrl", "ray", "mujoco", "ale_py")
#: A dry run may take longer than a user would wait: the machine may be busy.
DRY_RUN_SECONDS = 45
_VERSIONS = """
import json, platform, sys
from importlib import metadata
found = {"Python": platform.python_version()}
for name in sys.argv[1:]:
    found[name] = metadata.version(name)
print(json.dumps(found))
"""


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="GLOB", default="*", help="only cases whose id matches, such as 'atari:*'")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the runs (default: this one)")
    parser.add_argument("--no-plans", action="store_true", help="do not ask 'rlmem plan' for its predictions")
    parser.add_argument("--plans-only", action="store_true", help="only plan again; measurements stay")
    parser.add_argument(
        "--results", type=Path, default=results.PATH, help="the CSV (default: benchmarks/frameworks.csv)"
    )
    parser.add_argument("--time-limit", type=float, default=300, metavar="SECONDS", help="for one run (default: 300)")
    parser.add_argument("--render", action="store_true", help="measure nothing; only write what is in the results")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/frameworks.md afterwards")
    parser.add_argument("--list", action="store_true", help="only list the cases")
    args = parser.parse_args()
    if not any(fnmatch.fnmatch(case.id, args.only) for case in CASES):
        parser.error(f"--only: no case is called {args.only}; --list shows them")
    return args


def environment() -> dict[str, str]:
    """Ours without what would change a run; threads that wait leave the cores to those that work."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("RLMEM_", "RAY_", "PYTHON"))}
    return {**env, "OMP_WAIT_POLICY": "PASSIVE", "RAY_USAGE_STATS_ENABLED": "0"}


def plain(text: str) -> str:
    """What a program said, without where this checkout happens to be."""
    return text.removeprefix("rlmem: ").replace(f"{ROOT}/", "")[:250]


def measure(case: Case, python: str, time_limit_s: float) -> results.Row:
    """One training in a fresh process, to its end."""
    census = Census()
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        outcome = run_child(
            [python, str(case.script), *case.args],
            cwd=folder, env=environment(), time_limit_s=time_limit_s, on_tick=census,
        )  # fmt: skip
    row = {"status": outcome.status, "note": "", "wall_s": f"{outcome.wall_s:.1f}"}
    if outcome.status != "ok":
        return {**row, "note": plain(outcome.describe())}
    if not case.is_done(outcome.stdout):
        return {**row, "status": "failed", "note": "it ended before its last update"}
    main, workers, own = census.of(MAIN), census.of(WORKER), census.of(RAY)
    alone = len(census.members) == 1
    cells: dict[str, int | None] = {
        "processes": len(census.members),
        "threads": census.threads,
        "tree_bytes": outcome.peak.pss_bytes,
        "divided_bytes": census.total_bytes,
        "main_bytes": outcome.peak.pss_bytes if alone else sum(each.nbytes for each in main),
        "workers": len(workers),
        "worker_bytes": sum(each.nbytes for each in workers) // len(workers) if workers else None,
        "largest_worker_bytes": workers[0].nbytes if workers else None,
        "ray_processes": len(own),
        "ray_bytes": sum(each.nbytes for each in own),
        "store_bytes": census.store_bytes,
        "other_bytes": sum(each.nbytes for each in census.of(OTHER)),
    }
    return row | {name: "" if value is None else str(value) for name, value in cells.items()}


def plan(case: Case, python: str) -> results.Row:
    """What ``rlmem plan`` says of it beforehand; the cells stay empty where it has no answer, and the status says why."""
    with tempfile.TemporaryDirectory(prefix="fw-") as folder:
        output = Path(folder) / "plan.json"
        target, *rest = case.plan_target
        options = ["--json", "--output", str(output), "--ram", "1TB", "--python", python]
        if not case.config:
            options += ["--timeout", str(DRY_RUN_SECONDS)]
        env = environment() | {"PYTHONPATH": str(ROOT / "src")}
        outcome = run_child(
            [sys.executable, "-m", "rlmem", "plan", target, *options, *rest], cwd=folder, env=env, time_limit_s=200
        )
        row = dict.fromkeys(("plan_low", "plan_expected", "plan_high"), "") | {"plan_s": f"{outcome.wall_s:.1f}"}
        if outcome.returncode not in (0, 1) or not output.exists():
            lines = (outcome.stderr.strip() or outcome.stdout.strip()).splitlines()
            return row | {"plan_status": plain(lines[-1] if lines else outcome.describe())}
        document = json.loads(output.read_text(encoding="utf-8"))
    tops = [peak for peak in document.get("peaks", ()) if peak.get("is_peak") and peak.get("device") == "ram"]
    if not tops:
        return row | {"plan_status": "its answer has no RAM peak"}
    return (
        row
        | {f"plan_{end}": str(tops[0][f"{end}_bytes"]) for end in ("low", "expected", "high")}
        | {"plan_status": "ok"}
    )


def machine() -> str:
    """Where this runs, in words."""
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return (
        f"{len(os.sched_getaffinity(0))} cores ({names[0] if names else platform.machine()}), {format_size(memory)} of RAM, "
        f"no GPU used, Linux {platform.release()}"
    )


def versions(python: str) -> str:
    """What is installed in the interpreter of the runs; an error where a framework is missing."""
    done = subprocess.run([python, "-c", _VERSIONS, *PACKAGES], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["cannot be run"])[-1]
        sys.exit(f"{python}: {last}; 'make frameworks' sets up an interpreter that has everything")
    return ", ".join(f"{name} {version}" for name, version in json.loads(done.stdout).items())


def line(case: Case, row: results.Row) -> str:
    """A row as it is finished."""
    if row["status"] != "ok":
        return f"{case.id:28} {row['status']}: {row['note']}"
    workers = f", {row['workers']} workers of {tables.size(row, 'worker_bytes')}" if row["workers"] != "0" else ""
    own = f", Ray {tables.size(row, 'ray_bytes')}, store {tables.size(row, 'store_bytes')}"
    own = own if row["ray_processes"] != "0" else ""
    planned = tables.size(row, "plan_expected") or row.get("plan_status") or "not asked for"
    return (
        f"{case.id:28} {tables.size(row, 'tree_bytes')} in {row['processes']} processes after {row['wall_s']} s; "
        f"main {tables.size(row, 'main_bytes')}{workers}{own}; plan: {planned}"
    )


def main() -> int:
    """Measure, plan, write."""
    args = parse()
    chosen = [case for case in CASES if fnmatch.fnmatch(case.id, args.only)]
    if args.list:
        for case in chosen:
            print(f"{case.id:28} {case.script.name} {' '.join(case.args)}")
        return 0
    rows, order, failed = results.read(args.results), [case.id for case in CASES], 0
    if not args.render:
        where, what = machine(), versions(args.python)
        for case in chosen:
            row = {"id": case.id, **rows.get(case.id, {})}
            if not args.plans_only:
                if sys.stdout.isatty():
                    print(f"{case.id:28} …", end="\r", flush=True)
                row |= measure(case, args.python, args.time_limit)
                row |= {"date": datetime.date.today().isoformat(), "machine": where, "versions": what}
            if not args.no_plans:
                row |= plan(case, args.python)
            rows[case.id] = row
            results.write(rows, order, args.results)
            failed += row.get("status") != "ok"
            print(line(case, row), flush=True)
    if args.write_docs:
        tables.write_docs(CASES, rows, PAGE)
        print(f"Written: {PAGE}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nInterrupted; finished rows are in the results.", file=sys.stderr)
        sys.exit(130)
