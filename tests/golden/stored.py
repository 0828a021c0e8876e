"""What is said of stored runs: recorded ones, sweeps, benchmarks and plans, and of what the swarm's programs keep."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from golden.harness import Around, Case, as_text, call, command_case, own_folder, session_case, steady
from golden.stored_facts import ladder, run_id, store, training
from rlmem.cli.swarm import run as swarm

_FORMATS = ("txt", "md", "json")
_RECORDED = ("big.py", "leak.py", "dqn.py", "ppo.py", "slow.py", "fill.py")
_DQN, _PPO, _LEAK, _FILL = (run_id(name) for name in ("dqn.py", "ppo.py", "leak.py", "fill.py"))
_SWEEPS = (run_id("short.py", "measure"), run_id("short.py", "measure", 1), run_id("run.yaml", "measure"))
_BENCH, _PLAN = run_id("run.yaml", "bench"), run_id("pidog-sac", "plan")


def _asked(name: str, *words: str) -> Case:
    return command_case(f"stored/{name}", words, around=store)


def _files(name: str, words: Sequence[str], *kept: str) -> Case:
    return session_case(f"stored/{name}.txt", [words], kept=kept, around=store)


_RUNS = (
    *(_asked(f"runs.{suffix}", "runs") for suffix in _FORMATS),
    _asked("runs-of-a-kind.txt", "runs", "--kind", "measure"),
    _asked("runs-limit.txt", "runs", "--limit", "2"),
    _asked("runs-unknown-kind.txt", "runs", "--kind", "sweep"),
    _asked("runs-delete-unknown.txt", "runs", "--delete", "ffff"),
    session_case("stored/runs-delete.txt", [["runs", "--delete", _DQN[:4]], ["runs", "--kind", "run"]], around=store),
    command_case("stored/runs-none.txt", ["runs"]),
)
_SHOWN = (
    *(_asked(f"show-{name[:-3]}.txt", "show", run_id(name)) for name in _RECORDED),
    *(
        _asked(f"show-{name[:-3]}.{suffix}", "show", run_id(name))
        for name in ("leak.py", "fill.py")
        for suffix in ("md", "json")
    ),
    *(
        _asked(f"show-sweep-{number}.{suffix}", "show", run)
        for number, run in enumerate(_SWEEPS)
        for suffix in _FORMATS
    ),
    *(_asked(f"show-bench.{suffix}", "show", _BENCH) for suffix in _FORMATS),
    *(_asked(f"show-plan.{suffix}", "show", _PLAN) for suffix in ("txt", "md")),
    _files("show-csv", ["show", _SWEEPS[2], "--csv", "points.csv"], "points.csv"),
    _files("show-csv-alone", ["show", _SWEEPS[0], "-o", "points.csv"], "points.csv"),
    _files("show-csv-of-a-plan", ["show", _PLAN, "-o", "points.csv"], "points.csv"),
    _asked("show-unknown.txt", "show", "ffff"),
    _asked("show-no-file.txt", "show", "plan.json"),
    _asked("show-several.txt", "show", _DQN[:1]),
)
_ASSESSED = (
    *(
        _asked(f"assess-{name[:-3]}.{suffix}", "assess", run_id(name))
        for name in ("dqn.py", "leak.py")
        for suffix in (*_FORMATS, "html")
    ),
    *(
        _asked(f"assess-{name[:-3]}.html", "assess", run_id(name))
        for name in ("big.py", "ppo.py", "slow.py", "fill.py")
    ),
    _asked("assess-redacted.html", "assess", _DQN, "--redact"),
    _asked("assess-slow.txt", "assess", run_id("slow.py")),
    _asked("assess-a-sweep.txt", "assess", _SWEEPS[0]),
    _asked("assess-with-limits.txt", "assess", _DQN, "--ram", "30GB"),
)
_PAIRS = {
    "recorded": (_DQN, _PPO),
    "recorded-died": (_DQN, _LEAK),
    "recorded-fills": (_FILL, _DQN),
    "sweeps": _SWEEPS[:2],
    "sweeps-of-others": (_SWEEPS[0], _SWEEPS[2]),
}
_COMPARED = (
    *(_asked(f"compare-{name}.{suffix}", "compare", *pair) for name, pair in _PAIRS.items() for suffix in _FORMATS),
    _asked("compare-plan-and-target.txt", "compare", _PLAN, "pidog-sac-vector", "--ram", "30GB"),
    _asked("compare-kinds.txt", "compare", _DQN, _SWEEPS[0]),
    _asked("compare-benches.txt", "compare", _BENCH, _BENCH),
    _asked("compare-unknown.txt", "compare", _DQN, "ffff"),
    _asked("compare-set.txt", "compare", _DQN, _PPO, "--set", "n_envs=4"),
)


def _swarm(name: str, words: Sequence[str], around: Around) -> Case:
    """A case of ``python -m rlmem.swarm WORDS``; the day it is shown is left out."""

    def make() -> Any:
        with own_folder() as folder, around():
            code, out, err = call(list(words), swarm)
        out, err = (re.sub(r"\b20\d\d-\d\d-\d\d\b", "TODAY", steady(text, folder)) for text in (out, err))
        if name.endswith(".json"):
            return {"command": list(words), "exit": code, "stderr": err, "document": json.loads(out)}
        return as_text(words, code, out, err).replace("$ rlmem", "$ python -m rlmem.swarm", 1)

    return Case(f"stored/swarm-{name}", make)


_LADDER = ("ladder", "--agents", "20,40", "--only", "naive", "--only", "gyro")
_TRAIN = ("train", "--agents", "40", "--iterations", "2", "--no-checkpoint", "--ram", "2GB")
_SWARM = (
    _swarm("ladder.txt", _LADDER, ladder),
    _swarm("ladder.json", (*_LADDER, "--json"), ladder),
    _swarm("ladder-only-unknown.txt", ("ladder", "--only", "gyros"), ladder),
    _swarm("train.txt", _TRAIN, training),
    _swarm("train.json", (*_TRAIN, "--json"), training),
    _swarm("train-not-finite.txt", _TRAIN, partial(training, "not-finite")),
)

CASES: tuple[Case, ...] = (*_RUNS, *_SHOWN, *_ASSESSED, *_COMPARED, *_SWARM)
