"""What the advice of a document really saves, and where the memory of the real run is: what docs/why-20-gb.md tells, measured.

    python benchmarks/why_20_gb.py                     # about ten minutes
    python benchmarks/why_20_gb.py --quick             # one run each, shorter ones; under two
    python benchmarks/why_20_gb.py --write-docs        # put the tables and outputs into docs/why-20-gb.md
    python benchmarks/why_20_gb.py --from results.json --write-docs

Every run is ``docs/examples/crypto_trials.py`` in a fresh process, default allocator. Needs the ``truth`` extra, ElegantRL and Optuna.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from rlmem.process.attach import preload  # noqa: E402  # the path is set just above
from rlmem.process.explain import explain_process  # noqa: E402  # likewise
from rlmem.units import format_size  # noqa: E402  # likewise

SCRIPT = ROOT / "docs" / "examples" / "crypto_trials.py"
PAGE = ROOT / "docs" / "why-20-gb.md"
SCHEMA = "rlmem.bench-why-20-gb/1"
SEED_BYTES = 19_800_000_000
PLAIN = ("--threads", "12", "--workers", "3", "--net", "768", "--batch", "4096", "--store", "array")
#: One trial each, held after its last update. The last of an option that is given twice counts.
SINGLE: dict[str, tuple[str, ...]] = {
    "as it is": (),
    "52 threads": ("--threads", "26"),
    "4 threads": ("--threads", "4"),
    "2 workers": ("--workers", "2"),
    "net 1536": ("--net", "1536"),
    "net 512": ("--net", "512"),
    "batch 8192": ("--batch", "8192"),
    "batch 1024": ("--batch", "1024"),
    "list of tuples": ("--store", "list"),
}
#: Several trials in one process.
SERIES: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "empty-cache": ("--after-trial", "empty-cache"),
    "collect": ("--after-trial", "collect"),
    "trim": ("--after-trial", "trim"),
    "trim, and the leak": ("--after-trial", "trim", "--leak"),
}
#: glibc with blocks from 128 KiB on mapped, and so returned when they are freed: what a run needs, without what the
#: allocator keeps by chance.
EXACT = {"MALLOC_MMAP_THRESHOLD_": "131072"}
CACHE_SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:512"}
_TARGETS = """
from elegantrl.agents.AgentPPO import AgentPPO
agent = AgentPPO((768, 768), 71, 7, gpu_id=-1)
print(agent.act_target is agent.act and agent.cri_target is agent.cri)
"""


Runs = dict[str, list[dict[str, Any]]]


# ---------------------------------------------------------------- measuring
class Training:
    """The example in a fresh process, up to the moment in which it holds."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        command = ["python", str(SCRIPT.relative_to(ROOT)), *PLAIN, *arguments, "--hold", "3600"]
        env = dict(os.environ if env is None else env)
        env["PATH"] = (
            f"{Path(sys.executable).parent}{os.pathsep}{env.get('PATH', '')}"  # this interpreter, by a short name
        )
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.trials: list[dict[str, int]] = []

    def __enter__(self) -> Training:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def until(self, word: str) -> None:
        """Read what it prints up to a line that begins with the word; trials that end on the way are noted."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("after: "):
                self.trials.append(json.loads(line.removeprefix("after: ")))
            if line.startswith(word):
                return
        raise SystemExit(f"{' '.join(map(str, self.process.args))} ended before it said '{word}'")  # type: ignore[union-attr]

    def seen(self) -> dict[str, Any]:
        """What the process holds now, and its threads with their stacks."""
        lines = dict(
            line.split(":", 1)
            for line in Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8").splitlines()
        )
        resident, peak = (int(lines[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM"))
        found = explain_process(self.process.pid, names=False)
        return {
            "resident": resident,
            "peak": max(peak, resident),
            "threads": len(found.threads),
            "stacks": sum(stack.resident_bytes or 0 for stack in found.threads),
        }


def measure(quick: bool) -> dict[str, Any]:
    """Every case in fresh processes, two at a time; repeats go round all cases, so that a slow hour meets each of them."""
    iterations, steps = ("1", "512") if quick else ("2", "1024")
    size = ("--trials", "1", "--iterations", iterations, "--target-step", steps)
    rounds = [("exact", EXACT), *([] if quick else [("usual", {})] * 2)]
    runs: dict[str, Runs] = {kind: {name: [] for name in SINGLE} for kind in ("exact", "usual")}
    series: dict[str, list[dict[str, int]]] = {}

    def once(kind: str, env: dict[str, str], name: str) -> None:
        with Training(*size, *SINGLE[name], env={**os.environ, **env}) as training:
            training.until("holding")
            runs[kind][name].append(training.seen())
        say(f"{name}, {kind}", runs[kind][name][-1])

    def several(name: str) -> None:
        trials = ("--trials", "3" if quick else "9", "--iterations", "1", "--target-step", "512")
        env = CACHE_SETTINGS if name == "empty-cache" else {}
        with Training(*trials, *SERIES[name], env={**os.environ, **env}) as training:
            training.until("holding")  # in the last trial: one fewer has ended
            series[name] = training.trials
        say(f"{len(series[name])} trials, {name}", series[name][-1])

    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(once, kind, env, name) for kind, env in rounds for name in SINGLE]
        jobs += [pool.submit(several, name) for name in SERIES]
        for job in jobs:
            job.result()
    targets = subprocess.run([sys.executable, "-c", _TARGETS], capture_output=True, text=True, check=True).stdout
    return {**runs, "series": {name: series[name] for name in SERIES}, "targets_are_aliases": "True" in targets}


def shown(quick: bool) -> dict[str, str]:
    """What the commands print about a healthy and a leaking process, as they print it."""
    env = preload(os.environ)
    texts = {"plan": command("plan", "crypto-ppo", "--ram", "31GB").partition("\n\nFindings")[0]}
    kinds: dict[str, tuple[str, ...]] = {"healthy": (), "leaking": ("--leak",)}
    for name, more in kinds.items():
        size = ("--trials", "3" if quick else "9", "--iterations", "2", "--target-step", "512", "--episode", "128")
        with Training(*size, "--after-trial", "collect", *more, env=env) as training:
            training.until("holding")
            texts[f"explain-{name}"] = command("explain", str(training.process.pid))
    if not quick:
        with ThreadPoolExecutor() as pool:
            texts |= zip([f"watch-{name}" for name in kinds], pool.map(watched, kinds.values(), [env] * 2), strict=True)
    for text in texts.values():
        print(f"{text}\n", flush=True)
    return texts


def watched(more: tuple[str, ...], env: dict[str, str]) -> str:
    """One long trial, watched from its first evaluation on. The network is small: a minute has many steps then."""
    size = ("--trials", "1", "--iterations", "100000", "--net", "64", "--threads", "1", "--batch", "1024")
    with Training(*size, "--target-step", "1024", *more, env=env) as training:
        training.until("-1")  # the line of an evaluation
        often = ("--interval", "0.1", "--every", "15s", "--for", "90s")
        return command("watch", str(training.process.pid), "--plain", *often, "--fail-on", "leaking")


def command(*words: str) -> str:
    """One command of rlmem and what it says, as in a terminal without colours."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "130"}
    asked = [sys.executable, "-m", "rlmem", *words]
    done = subprocess.run(asked, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return f"$ rlmem {' '.join(words)}\n{done.stdout.rstrip()}"


def say(name: str, row: dict[str, Any]) -> None:
    """A line while it goes on."""
    print(
        f"{name:28} peak {format_size(row['peak'])}, then {format_size(row['resident'])}, {row['threads']} threads",
        flush=True,
    )


# ---------------------------------------------------------------- telling
def table(data: dict[str, Any]) -> str:
    """Advice, what the document promised, what it saves."""
    exact, series, base = data["exact"], data["series"], "as it is"
    ended, count = {name: rows[-1] for name, rows in series.items()}, len(series["nothing"])
    few, some, many = (exact[name][0] for name in ("4 threads", base, "52 threads"))
    each = (many["peak"] - few["peak"]) / (many["threads"] - few["threads"])
    step = leak_bytes_per_step(data)
    leaked = ended["trim, and the leak"]["resident"] - ended["trim"]["resident"]

    def saved(before: str, then: str) -> tuple[str, str]:
        return change(data["exact"], before, then), change(data["usual"], before, then)

    def left(before: dict[str, int], then: dict[str, int]) -> tuple[str, str]:
        return "–", "; ".join(format_size(before[what] - then[what]) for what in ("peak", "resident"))

    returned = {
        way: format_size(max(row["returned"] for row in series[way])) for way in ("empty-cache", "collect", "trim")
    }
    rows = [
        ("`thread_num` 12 → 4", "2–3 GB", *saved(base, "4 threads"),
         f"{some['threads']} threads become {few['threads']}; one costs {format_size(each)}, "
         f"{format_size(many['stacks'] / many['threads'])} of it stack"),
        ("53 threads → 8", "19.8 GB → 12–15 GB", *saved("52 threads", "4 threads"),
         f"{many['threads']} threads here, with `thread_num` 26: their stacks reserve 8 MiB each and hold "
         f"{format_size(many['stacks'])} in all"),
        ("`worker_num` 3 → 2", "“already optimized”", *saved(base, "2 workers"),
         "`train_agent` never reads it: no worker is started"),
        ("`net_dimension` 1536 → 512", "1–2 GB", *saved("net 1536", "net 512"), "weights, gradients, Adam, activations"),
        ("`batch_size` 8192 → 1024", "0.5–1 GB", *saved("batch 8192", "batch 1024"), "activations and their gradients"),
        ("`empty_cache()`, `max_split_size_mb`", "2–5 GB", returned["empty-cache"], "–",
         "it empties torch’s cache of VRAM; RAM has none"),
        ("without target networks", "half of 2–4 GB", "0 B" if data["targets_are_aliases"] else "they are copies", "–",
         "there are none: `act_target is act`"),
        ("rollout as arrays, not as a list of tuples", "–", *saved("list of tuples", base),
         "of 1,024 transitions; it counts when lists are long"),
        ("`gc.collect()` after each trial", "–", *left(ended["nothing"], ended["collect"]),
         f"of {count} trials: a trained agent refers to itself, and keeps its tensors until the collector comes; "
         f"one call gave back up to {returned['collect']}"),
        ("then `malloc_trim(0)`", "–", *left(ended["collect"], ended["trim"]),
         f"free blocks, given back; one call up to {returned['trim']}"),
        ("a fresh process for each trial", "–", *left(ended["nothing"], series["nothing"][0]),
         f"against {count} trials in one process"),
        ("not to keep every episode’s infos", "not seen", "–", f"{format_size(leaked)} after {count} short trials",
         f"{step:,.0f} B a step without end: 19.8 GB after {SEED_BYTES / step / 1e6:,.1f} million steps"),
    ]  # fmt: skip
    lines = [
        "| advice | promised | saved: at the peak; afterwards | the same with the allocator’s chance in it | why |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join([*lines, *differed(data["usual"])])


def differed(runs: Runs) -> tuple[str, ...]:
    """What chance is worth: how far two runs of the same settings were apart."""
    repeated = [rows for rows in runs.values() if len(rows) > 1]
    if not repeated:
        return ()
    peak, then = (
        format_size(max(max(row[what] for row in rows) - min(row[what] for row in rows) for rows in repeated))
        for what in ("peak", "resident")
    )
    text = f"With the allocator as it is, two runs of the same settings were up to {peak} apart at the peak, and {then} afterwards."
    return "", text


def change(runs: Runs, before: str, then: str) -> str:
    """Peak and steady difference of two cases, medians of their repeats."""
    if not (runs[before] and runs[then]):
        return "–"
    middle = [
        [statistics.median(row[what] for row in runs[name]) for name in (before, then)] for what in ("peak", "resident")
    ]
    return "; ".join(format_size(more - less) for more, less in middle)


def leak_bytes_per_step(data: dict[str, Any]) -> float:
    """What a step leaves behind: the slope of the leaking series less that of its sibling, by steps a trial."""
    leaking, sibling = (
        statistics.linear_regression(range(len(rows)), [row["resident"] for row in rows]).slope
        for rows in (data["series"]["trim, and the leak"], data["series"]["trim"])
    )
    return (leaking - sibling) / (512 + 2 * 512)  # a rollout, and two episodes to evaluate


def blocks(data: dict[str, Any]) -> dict[str, str]:
    """The generated parts of the page, by name."""
    series = data["series"]
    sizes = [
        f"| {name} | " + " | ".join(format_size(row["resident"]) for row in rows) + " |"
        for name, rows in series.items()
    ]
    head = "| after trial | " + " | ".join(str(n + 1) for n in range(len(series["nothing"]))) + " |"
    made = {
        "advice": table(data),
        "series": "\n".join([head, "| --- " * (len(series["nothing"]) + 1) + "|", *sizes]),
        "with": f"Measured on {data['date']}: {data['with']}.",
    }
    made |= {name: f"```\n{text}\n```" for name, text in data["shown"].items()}
    usual = [row["peak"] for row in data["usual"]["list of tuples"]]
    if usual:
        sizes = " and ".join(format_size(peak) for peak in sorted(usual))
        made["plan"] += (
            f"\n\nThe real process, its rollout in a list of tuples as the project had it, peaked at {sizes}."
        )
    return made


def written(text: str, made: dict[str, str]) -> str:
    """The page with every generated part in its place."""
    for name, block in made.items():
        begin, end = f"<!-- bench:begin {name} -->", f"<!-- bench:end {name} -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{block}\n{end}{rest.split(end)[1]}"
    return text


def main() -> None:
    """Measure or read, print, and write what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run of each, shorter ones")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument(
        "--from", type=Path, dest="source", help="tell results again that --json wrote; measure nothing"
    )
    parser.add_argument("--write-docs", action="store_true", help="put the generated parts into docs/why-20-gb.md")
    given = parser.parse_args()
    if given.quick and given.write_docs:
        sys.exit("--quick is for a look; the page is written from a whole run")
    if given.source:
        data = json.loads(given.source.read_text(encoding="utf-8"))
        if data.get("schema") != SCHEMA:
            sys.exit(f"{given.source} is not a results file of this benchmark")
    else:
        packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("torch", "elegantrl", "optuna"))
        data = {
            "schema": SCHEMA,
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "with": f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, Python {platform.python_version()}, {packages}",
            **measure(given.quick),
            "shown": shown(given.quick),
        }
    if given.json:
        given.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    made = blocks(data)
    print("\n\n".join(made.values()))
    if given.write_docs:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
