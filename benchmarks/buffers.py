"""Replay and rollout buffers side by side: bytes, speed, latency and exactness of SB3's, ours and other libraries'.

    python benchmarks/buffers.py                                    # everything (an hour or two)
    python benchmarks/buffers.py --quick --only pong
    python benchmarks/buffers.py --only 'pong:rlmem*' --only camera:cpprb --transitions 200000
    python benchmarks/buffers.py --json results.json --write-docs   # and docs/buffers.md from the results

Every store runs in a fresh process beside one with SB3's buffer, and the two take turns. Results add up in a JSON file,
written after every row: Ctrl-C loses only the row under way. Needs the ``bench-buffers`` extra (``make bench-buffers``).
"""

from __future__ import annotations

import argparse
import fnmatch
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "src")]

from buffer_bench import duel, tables  # noqa: E402  # likewise
from buffer_bench.recording import transitions_in  # noqa: E402  # likewise
from buffer_bench.results import Results  # noqa: E402  # likewise
from buffer_bench.rollout import ENVS, SHAPE  # noqa: E402  # likewise
from buffer_bench.workloads import WORKLOADS, Workload, recorded  # noqa: E402  # likewise
from rich.console import Console  # noqa: E402  # the path is set just above

from rlmem.process.calibration import cache_folder  # noqa: E402  # likewise

Say = Callable[[str], None]
PAGE = ROOT / "docs" / "buffers.md"


def parse() -> argparse.Namespace:
    """The command line."""
    folder = cache_folder() / "bench-buffers"
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--only", action="append", metavar="WORKLOAD[:STORE]", help="only these; globs; may be repeated"
    )
    parser.add_argument(
        "--transitions", type=int, metavar="N", help="capacity of the buffers, instead of each workload's"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small buffers and few rounds: whether it works, not how well"
    )
    parser.add_argument("--json", type=Path, default=folder / "results.json", help="results (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=folder, help="folder for recordings (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of recordings and sampling")
    parser.add_argument("--threads", type=int, help="OMP_NUM_THREADS of the processes (default: the machine's)")
    parser.add_argument("--clock", choices=tuple(tables.CLOCKS), default="wall",
                        help="ratios shown: of elapsed time; on a busy machine of processor time, or the fastest rounds")  # fmt: skip
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/buffers.md afterwards")
    parser.add_argument(
        "--render", action="store_true", help="measure nothing; only tables (and docs) from the results"
    )
    parser.add_argument("--list", action="store_true", help="only list workloads and stores")
    args = parser.parse_args()
    if args.transitions is not None and args.transitions < 1_000:
        parser.error("--transitions: at least 1000, or there is nothing to weigh")
    return args


def chosen(only: list[str] | None) -> list[tuple[Workload, list[str]]]:
    """Workloads and stores that ``--only`` names; SB3 comes along as the reference, whether it has a row or not."""
    found = []
    for workload in WORKLOADS.values():
        names = []
        for store in workload.stores:
            patterns = [pattern.partition(":") for pattern in only or ["*"]]
            if any(
                fnmatch.fnmatch(workload.name, first) and fnmatch.fnmatch(store, last or "*")
                for first, _, last in patterns
            ):
                names.append(store)
        if names:
            found.append((workload, names))
    if not found:
        raise SystemExit(f"nothing is called {', '.join(only or [])}; --list shows the workloads and stores")
    return found


def record(name: str, folder: Path, transitions: int, seed: int, say: Say) -> None:
    """Make a recording unless there is one that is long enough."""
    if transitions_in(folder / name) >= transitions:
        return
    if name == "camera-noise":
        record("camera", folder, transitions, seed, say)
    command = [sys.executable, "-m", "buffer_bench.record", name, str(folder / name), str(transitions), str(seed)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=duel.environment(1)
    ) as process:
        try:
            assert process.stdout and process.stderr
            for line in process.stdout:
                done, _, total = line.partition(" ")
                if done.isdigit():
                    say(f"recording {name}: {int(done):,} of {int(total):,} transitions")
            errors = process.stderr.read()
        except KeyboardInterrupt:
            process.kill()
            raise
    if process.returncode:
        raise duel.StoreError(f"recording {name} failed: {(errors.strip().splitlines() or ['no message'])[-1]}")


@contextmanager
def reporting(console: Console) -> Iterator[Say]:
    """Progress in one line of a terminal; nothing where the output is a file."""
    if not console.is_terminal:
        yield lambda _text: None
        return
    with console.status("") as status:
        yield status.update


class Benchmark:
    """One run of the command."""

    def __init__(self, args: argparse.Namespace, console: Console) -> None:
        self.args, self.console = args, console
        self.effort = replace(duel.QUICK if args.quick else duel.Effort(), threads=args.threads)
        self.results = Results(args.json)
        self.folder = args.data / f"seed-{args.seed}"

    def run(self, workload: Workload, stores: list[str]) -> None:
        """One table."""
        capacity = self.args.transitions or (workload.quick if self.args.quick else workload.capacity)
        with reporting(self.console) as say, ExitStack() as stack:
            if workload.recording:
                try:
                    record(workload.recording, self.folder, recorded(capacity), self.args.seed, say)
                except duel.StoreError as error:
                    self.console.print(f"[red]{workload.name}: {error}[/]")
                    return
            facts = {"capacity": capacity, "folder": str(self.folder), "seed": self.args.seed}
            reference = None
            for store in stores:
                label, install = workload.stores[store]

                def told(text: str, label: str = label) -> None:
                    say(f"{workload.name} · {label}: {text}")

                row: dict[str, Any] = {"workload": workload.name, "store": store, "label": label, "capacity": capacity}
                row["threads"] = self.args.threads
                try:
                    if workload.kind == "replay" and reference is None:
                        say(f"{workload.name} · SB3: filling the buffer that all others are compared with")
                        reference = stack.enter_context(self._reference(workload, facts))
                    row |= self._measure(workload, store, reference, facts, told)
                    row["status"] = "ok"
                except duel.MissingError as error:
                    row |= {
                        "status": "not installed",
                        "why": f"no module {error}; {install} is in the bench-buffers extra",
                    }
                except duel.StoreError as error:
                    row |= {"status": "failed", "why": str(error)[:300]}
                    if reference and reference.process.poll() is not None:
                        reference = None  # it was the one that died; the next store gets a new one
                self.results.put(row)
                self.console.print(self._line(workload, row), highlight=False)

    def _line(self, workload: Workload, row: dict[str, Any]) -> str:
        """A row as it is finished; the whole of it is in the table at the end."""
        heads, lines = tables.table(workload, [*self._stock(workload), row], self.args.clock)
        label, *cells = lines[-1]
        said = [f"{head} {cell}" for head, cell in zip(heads[1:], cells, strict=True) if cell]
        return f"{workload.name:13} {label:34} " + (" · ".join(said[:4]) if row["status"] == "ok" else row["status"])

    def _stock(self, workload: Workload) -> list[dict[str, Any]]:
        return [row for row in self.results.of(workload.name) if row["store"] == "sb3"]

    @contextmanager
    def _reference(self, workload: Workload, facts: dict[str, Any]) -> Iterator[duel.Child]:
        with duel.Child(self.effort.threads) as child:
            child.start("replay", workload=workload.name, store="sb3", **facts)
            child.ask("add", count=2 * facts["capacity"])
            yield child

    def _measure(
        self, workload: Workload, store: str, reference: duel.Child | None, facts: dict[str, Any], say: Say
    ) -> dict[str, Any]:
        say("starting")
        if workload.kind == "rollout":
            needed = facts["capacity"] // ENVS * ENVS * SHAPE[0] * SHAPE[1] * SHAPE[2] * 2.2
            if store == "sb3" and needed > available():
                raise duel.StoreError(
                    f"needs {needed / 1e9:.1f} GB, {available() / 1e9:.1f} GB are free; try --transitions"
                )
            with duel.Child(self.effort.threads) as child:
                child.start("rollout", workload=workload.name, store=store, **facts)
                return {"rollout": child.ask("measure")}
        with duel.Child(self.effort.threads) as child:
            child.start(workload.kind, workload=workload.name, store=store, **facts)
            if reference:
                return duel.replay(reference, child, facts["capacity"], self.effort, say)
            # Trainings are compared from their first step on, so each has a reference of its own.
            with duel.Child(self.effort.threads) as stock:
                stock.start(workload.kind, workload=workload.name, store="sb3", **facts)
                return duel.learn(stock, child, self.effort, say)


def available() -> int:
    """Bytes of RAM that can still be had."""
    import psutil

    return int(psutil.virtual_memory().available)


def main() -> int:
    """Measure, show, write."""
    args, console = parse(), Console()
    if not console.is_terminal:
        console = Console(width=160)
    plan = chosen(args.only)
    if args.list:
        for workload, stores in plan:
            console.print(f"[bold]{workload.name}[/]  {workload.title}\n  {' '.join(stores)}", highlight=False)
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's way of saying Ctrl-C
    bench, code = Benchmark(args, console), 0
    if not args.render:
        try:
            for workload, stores in plan:
                bench.run(workload, stores)
        except KeyboardInterrupt:
            console.print(f"\nInterrupted; finished rows are in {args.json}")
            code = 130
    for workload, _ in plan:
        if rows := bench.results.of(workload.name):
            tables.show(console, workload, rows, args.clock)
    if bench.results.rows:
        console.print(f"Results: {args.json}")
        if args.write_docs and not code:
            tables.write_docs(bench.results, PAGE, args.clock)
            console.print(f"Written: {PAGE}")
    return code


if __name__ == "__main__":
    sys.exit(main())
