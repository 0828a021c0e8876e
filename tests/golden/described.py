"""Commands over runs that are described: presets and run files."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from golden.harness import Case, call, command_case, own_folder, session_case, steady
from golden.machine import NOW
from rlmem.sources.preset import PRESETS

_FORMATS = ("txt", "md", "json")
_LIMITS = ("--ram", "30GB", "--vram", "16GB")
_NODES = "4x(64GB,16cpu,1xA100-80GB)"
_MIXED = "2x(128GB,32cpu,2xRTX 4090) + 10xaws-g5-2xlarge"
#: Of commands that search for long: those that are made in every format, and those that differ most.
_BOTH = ("pyboy-ppo", "pidog-sac")
_FEW = (*_BOTH, "drone-swarm", "crypto-ppo")
_ON_POLICY = ("drone-swarm", "drone-swarm-v0", "pyboy-ppo", "crypto-ppo")
#: The groups of components of each preset.
_GROUPS = {
    **dict.fromkeys(("drone-swarm", "drone-swarm-v0"), ("checkpoint", "learner", "rollout", "runtime", "workers")),
    "pyboy-ppo": ("batch", "checkpoint", "eval", "learner", "rollout", "runtime", "workers"),
    "crypto-ppo": ("batch", "checkpoint", "learner", "rollout", "runtime", "workers"),
    **dict.fromkeys(
        ("pidog-sac", "pidog-td3", "pidog-sac-vector"),
        ("batch", "checkpoint", "learner", "replay", "runtime", "workers"),
    ),
}
#: Run files, one or two of each framework, and RLlib runs as they were described by their own interpreter.
RUNS = {path.stem: path.read_text(encoding="utf-8") for path in sorted((Path(__file__).parent / "runs").glob("*.yaml"))}
RLLIB = json.loads((Path(__file__).parent / "descriptions" / "rllib.json").read_text(encoding="utf-8"))
_RLLIBRUNS = ("ppo_pong_stacked", "dqn_pong", "sac_humanoid", "held_impala_two_learners", "held_appo_pong")


def _formats(name: str, words: Sequence[str], *, formats: Sequence[str] = _FORMATS, **options: Any) -> Iterator[Case]:
    """The same command in several formats."""
    for suffix in formats:
        yield command_case(f"{name}.{suffix}", words, **options)


def _plans() -> Iterator[Case]:
    for preset in PRESETS:
        yield from _formats(f"plan/{preset}", ["plan", preset, *_LIMITS], formats=(*_FORMATS, "html"))
        yield command_case(f"plan/full/{preset}.txt", ["plan", preset, *_LIMITS, "--full"])
        for group in _GROUPS[preset]:
            yield command_case(f"plan/why/{preset}-{group}.txt", ["plan", preset, *_LIMITS, "--why", group])
        yield from _formats(f"plan/nodes/{preset}", ["plan", preset, "--nodes", _NODES], formats=("txt", "md"))
        yield command_case(f"plan/stacks/{preset}.txt", ["plan", preset, *_LIMITS, "--stacks"])
    yield from _formats(
        "plan/why/pidog-sac-replay", ["plan", "pidog-sac", *_LIMITS, "--why", "replay"], formats=("md", "json")
    )
    yield from _formats(
        "plan/stacks/drone-swarm", ["plan", "drone-swarm", *_LIMITS, "--stacks"], formats=("md", "json")
    )
    yield command_case("plan/stacks/nodes.txt", ["plan", "pyboy-ppo", "--nodes", _NODES, "--stacks"])
    yield from _formats("plan/nodes/pyboy-ppo", ["plan", "pyboy-ppo", "--nodes", _NODES], formats=("json", "html"))
    yield command_case("plan/nodes/mixed.txt", ["plan", "pidog-sac", "--nodes", _MIXED, "--margin", "20%"])
    yield command_case("plan/nodes/too-small.txt", ["plan", "pidog-sac", "--nodes", "8x8GB"])
    # Limits: of this machine, of a machine of the catalogue, too small, tight, in other units; and changes of fields.
    yield from _formats("plan/limits/here", ["plan", "pidog-sac"], formats=("txt", "json"))
    yield from _formats("plan/limits/here-with-gpu", ["plan", "pyboy-ppo"], formats=("txt", "json"), gpu=True)
    yield from _formats(
        "plan/limits/laptop", ["plan", "pidog-sac", "--machine", "laptop-16gb"], formats=("txt", "md", "html")
    )
    yield command_case("plan/limits/card.txt", ["plan", "pyboy-ppo", "--machine", "rtx-4090", "--ram", "64GiB"])
    yield command_case("plan/limits/unified.txt", ["plan", "pyboy-ppo", "--machine", "macbook-m2-24gb"])
    yield command_case("plan/limits/only-vram.txt", ["plan", "pyboy-ppo", "--vram", "1GiB"])
    yield command_case("plan/limits/too-small.txt", ["plan", "pidog-sac", "--ram", "8GB"])
    yield command_case("plan/limits/tight.txt", ["plan", "pidog-sac", "--ram", "18GiB"])
    yield command_case(
        "plan/limits/set.txt", ["plan", "pyboy-ppo", *_LIMITS, "--set", "n_envs=4", "--set", "framework.version=2.3.2"]
    )
    yield command_case(
        "plan/limits/storage.txt",
        ["plan", "drone-swarm", "--set", "agents=1M", "--set", "storage=stream", "--ram", "16GB"],
    )


def _run_files() -> Iterator[Case]:
    for name, text in RUNS.items():
        words = ["plan", f"{name}.yaml", "--ram", "32GB", "--vram", "16GB"]
        yield from _formats(f"runs/{name}", words, formats=("md", "json"), files={f"{name}.yaml": text})
        yield command_case(f"runs/{name}.txt", [*words, "--full"], {f"{name}.yaml": text})
    for name in _RLLIBRUNS:
        files = {f"{name}.json": json.dumps(RLLIB[name])}
        words = [f"{name}.json", "--nodes", _NODES]
        yield from _formats(f"runs/rllib-{name}", ["plan", *words], formats=("txt", "md", "json"), files=files)
        yield from _formats(
            f"runs/rllib-{name}-workers", ["workers", *words], formats=("txt", "md", "json"), files=files
        )
    files = {"run.json": json.dumps(RLLIB["ppo_pong_stacked"])}
    yield command_case("runs/rllib-one-machine.txt", ["plan", "run.json", "--ram", "32GB"], files)
    yield command_case("runs/rllib-workers-one-machine.txt", ["workers", "run.json", "--ram", "32GB"], files)
    yield command_case("runs/rllib-fit.txt", ["fit", "run.json", "--ram", "4GB"], files)
    yield command_case("runs/rllib-assess.md", ["assess", "run.json", "--ram", "32GB"], files)
    files = {"own.yaml": RUNS["cleanrl-dqn"]}
    yield command_case("runs/cleanrl-fit.txt", ["fit", "own.yaml", "--ram", "8GB"], files)
    yield command_case("runs/cleanrl-assess.md", ["assess", "own.yaml", "--ram", "8GB"], files)
    files = {"dict.yaml": RUNS["sb3-sac-dict"], "her.yaml": RUNS["sb3-her-sac"]}
    yield command_case("runs/compare.txt", ["compare", "dict.yaml", "her.yaml", *_LIMITS], files)
    yield command_case("runs/capacity.txt", ["capacity", "her.yaml", "--vary", "buffer_size", *_LIMITS], files)


def _counts() -> Iterator[Case]:
    """How far a count can be turned."""
    machines = "8GB,laptop-16gb,rtx-4090,macbook-m2-24gb"
    for preset in PRESETS:
        formats = _FORMATS if preset in _BOTH else ("txt", "json")
        knob = "n_steps" if preset in _ON_POLICY else "buffer_size"
        yield from _formats(f"capacity/{preset}", ["capacity", preset, "--vary", knob, *_LIMITS], formats=formats)
    for preset in _FEW:
        words = ["capacity", preset, "--vary", "n_envs=1,16", "--machines", machines]
        yield command_case(f"capacity/values/{preset}.txt", words)
    words = ["capacity", "crypto-ppo", "--vary", "n_envs=1,4,16,64", "--machines", machines]
    yield from _formats("capacity/values/crypto-ppo", words, formats=("md", "json"))
    yield command_case("capacity/here.txt", ["capacity", "pidog-sac", "--vary", "buffer_size"])
    yield command_case("capacity/here-with-gpu.txt", ["capacity", "pyboy-ppo", "--vary", "batch_size"], gpu=True)
    yield command_case("capacity/unlimited.txt", ["capacity", "pidog-sac", "--vary", "total_timesteps", *_LIMITS])
    yield command_case(
        "capacity/machines.txt", ["capacity", "drone-swarm", "--vary", "agents", "--machines", "8GB,16GB,24GB,80GB"]
    )


def _fits() -> Iterator[Case]:
    for preset in PRESETS:
        formats = _FORMATS if preset in _BOTH else ("txt", "json")
        yield from _formats(f"fit/{preset}", ["fit", preset, "--ram", "8GB", "--vram", "2GB"], formats=formats)
    for preset in _FEW:
        yield command_case(f"fit/lossless/{preset}.txt", ["fit", preset, "--ram", "4GB", "--lossless"])
    for name, words in {
        "already": ["pidog-sac", "--ram", "64GB"],
        "keep": ["pidog-sac", "--ram", "8GB", "--keep", "buffer_size,n_envs", "--keep", "storage"],
        "slowdown": ["pidog-sac", "--ram", "8GB", "--max-slowdown", "1.05"],
        "no": ["pidog-sac", "--ram", "200MB"],
        "diff": ["pidog-sac", "--ram", "8GB", "--diff"],
        "diff-already": ["pidog-sac", "--ram", "64GB", "--diff"],
        "here": ["pidog-sac"],
        "machine": ["pyboy-ppo", "--machine", "jetson-orin-nano-8gb"],
        "set": ["pidog-sac", "--ram", "8GB", "--set", "device=cuda"],
    }.items():
        yield from _formats(
            f"fit/ways/{name}",
            ["fit", *words],
            formats=("txt", "json") if name in ("no", "already") else ("txt",),
        )


def _assessments() -> Iterator[Case]:
    for preset in PRESETS:
        formats = (*_FORMATS, "html") if preset in _BOTH else _FORMATS
        yield from _formats(f"assess/{preset}", ["assess", preset, *_LIMITS], formats=formats)
    yield command_case("assess/here.md", ["assess", "pidog-sac"])
    yield command_case("assess/too-small.md", ["assess", "pidog-sac", "--ram", "8GB"])


def _places() -> Iterator[Case]:
    for preset in PRESETS:
        yield from _formats(f"workers/{preset}", ["workers", preset, "--nodes", "10x(64GB,16cpu)"])
        yield command_case(f"workers/one/{preset}.txt", ["workers", preset, "--ram", "31GB"])
        yield command_case(f"workers/mixed/{preset}.txt", ["workers", preset, "--nodes", _MIXED, "--margin", "20%"])
    yield command_case("workers/here.txt", ["workers", "pidog-sac"])
    yield command_case("workers/here-with-gpu.txt", ["workers", "pyboy-ppo"], gpu=True)
    yield command_case("workers/machine.txt", ["workers", "pyboy-ppo", "--machine", "aws-p4d-24xlarge"])
    yield command_case("workers/too-small.txt", ["workers", "pidog-sac", "--nodes", "3x8GB"])
    shard = ["workers", "drone-swarm", "--set", "agents=10M", "--set", "storage=stream", "--shard", "agents"]
    yield from _formats("workers/shard", [*shard, "--nodes", "16x16GB"])
    yield command_case("workers/shard-too-small.txt", [*shard, "--nodes", "2x1GB"])


def _comparisons() -> Iterator[Case]:
    for left, right in zip(PRESETS, [*list(PRESETS)[1:], next(iter(PRESETS))], strict=True):
        yield from _formats(f"compare/{left}", ["compare", left, right, *_LIMITS])
    yield command_case("compare/same.txt", ["compare", "crypto-ppo", "crypto-ppo", *_LIMITS])
    words = ["compare", "pyboy-ppo", "pyboy-ppo", "--set-left", "framework.version=2.3.2", "--set-right", "n_envs=8"]
    yield from _formats("compare/sets", [*words, "--set", "n_steps=512", *_LIMITS])


#: An interpreter that answers what rlmem asks of one that has environments.
_PYTHON = """\
#!/bin/sh
case "$*" in
  *Pendulum*) echo '{"observation": {"type": "box", "shape": [3]}, "action": {"type": "box", "shape": [1]}, "n_envs": 1, "sb3": "2.9.2"}' ;;
  *Pong*) echo '{"observation": {"type": "box", "shape": [210, 160, 3], "dtype": "uint8", "low": 0.0, "high": 255.0}, "action": {"type": "discrete", "n": 6}, "n_envs": 1, "sb3": "2.9.2"}' ;;
  *robots*) echo '{"observation": {"type": "box", "shape": [348], "dtype": "float64"}, "action": {"type": "box", "shape": [17]}, "n_envs": 8}' ;;
  *Nowhere*) echo '{"problem": "gymnasium knows no environment Nowhere-v1"}' ;;
  *Broken*) echo 'Segmentation fault' >&2; exit 139 ;;
  *) echo 3.12 ;;
esac
"""
PYTHON = {"python": _PYTHON}


def _buffers() -> Iterator[Case]:
    common = ["--ram", "16GB", "--python", "./python"]
    for env, algo in (("Pendulum-v1", "sac"), ("ALE/Pong-v5", "dqn"), ("mypkg:robots", "TD3")):
        name = f"max-buffer/{env.replace('/', '-').replace(':', '-')}"
        yield from _formats(name, ["max-buffer", env, "--algo", algo, *common], files=PYTHON)
    for name, words in {
        "stacked": ["ALE/Pong-v5", "--algo", "dqn", "--set", "frame_stack=4", *common],
        "margin": ["Pendulum-v1", "--algo", "td3", "--n-envs", "4", "--margin", "25%", *common],
        "here": ["Pendulum-v1", "--algo", "sac", "--python", "./python"],
        "too-small": ["Pendulum-v1", "--algo", "sac", "--ram", "100MB", "--python", "./python"],
        "on-policy": ["Pendulum-v1", "--algo", "ppo", *common],
        "unknown-algorithm": ["Pendulum-v1", "--algo", "sax", *common],
        "wrong-action": ["Pendulum-v1", "--algo", "dqn", *common],
        "no-environment": ["Nowhere-v1", "--algo", "sac", *common],
        "broken": ["Broken-v1", "--algo", "sac", *common],
    }.items():
        yield command_case(f"max-buffer/ways/{name}.txt", ["max-buffer", *words], PYTHON)


def _catalogues() -> Iterator[Case]:
    yield from _formats("catalogues/machines", ["machines"])
    yield from _formats("catalogues/machine", ["machines", "rtx-4090"])
    yield from _formats("catalogues/here", ["machines", "--here"])
    yield from _formats("catalogues/here-with-gpu", ["machines", "--here"], gpu=True)
    yield from _formats("catalogues/presets", ["presets"])
    for preset in PRESETS:
        yield command_case(f"catalogues/presets/{preset}.txt", ["presets", "--show", preset])
    yield from _formats("catalogues/rules", ["rule"])
    yield from _formats("catalogues/rule", ["rule", "MEM101"])
    yield command_case("catalogues/rule-by-name.txt", ["rule", "materialised-stack"])
    yield session_case(
        "catalogues/rule-pages.txt", [["rule", "--pages", "-o", "rules.md"]], kept=["rules.md", "rules/MEM101.md"]
    )
    yield command_case("catalogues/five-runs.txt", ["five-runs"])


#: The same with answers to what calibration measures; this one is built for CUDA and cannot import sb3_contrib.
_MEASURED = {
    "imports": {
        "versions": {
            "python": "3.12.1",
            "numpy": "2.4.6",
            "torch": "2.13.0+cu130",
            "gymnasium": "1.2.2",
            "stable_baselines3": "2.9.2",
            "sb3_contrib": "ModuleNotFoundError",
            "pyboy": "2.6.0",
        },
        "rss": {
            "interpreter": 9_400_000,
            "numpy": 21_000_000,
            "torch": 480_000_000,
            "gymnasium": 14_000_000,
            "stable_baselines3": 61_000_000,
            "sb3_contrib": None,
            "pyboy": 5_000_000,
        },
    },
    "threads": {"each": 41_000},
    "warm-up": {"optimizer": 3_000_000, "mlp": 12_000_000, "conv": 44_000_000},
    "workers": {"added": 190_000_000},
    "cuda": {"context": 700_000_000, "host": 510_000_000, "device": "NVIDIA L4"},
}
_CALIBRATED = {
    "python": '#!/bin/sh\ncase "$2" in\n'
    + "".join(f"  {step}) echo '{json.dumps(answer)}' ;;\n" for step, answer in _MEASURED.items())
    + "  *) echo 3.12 ;;\nesac\n",
    "wrong": "#!/bin/sh\necho hello\n",
    "short": "#!/bin/sh\necho '{}'\n",
}


def _dated() -> contextlib.AbstractContextManager[Any]:
    """The day that measured constants carry."""
    return mock.patch("rlmem.app.calibrate.date", SimpleNamespace(today=NOW.date))


def _calibrations() -> Iterator[Case]:
    words = ["calibrate", "--python", "./python", "--import", "pyboy"]
    yield from _formats("catalogues/calibrate", words, files=_CALIBRATED)
    plan = ["plan", "pidog-sac", *_LIMITS, "--python", "./python", "--why", "runtime"]
    forget = ["calibrate", "--python", "./python", "--forget"]
    yield session_case("catalogues/calibrated.txt", [words, plan, forget, plan, forget], _CALIBRATED, around=_dated)
    broken = [["calibrate", "--python", "./wrong"], ["calibrate", "--python", "./short"]]
    yield session_case("catalogues/not-calibrated.txt", broken, _CALIBRATED)


def _kept() -> Iterator[Case]:
    """Documents that are saved and shown."""
    for preset in _BOTH:
        commands = [
            ["plan", preset, *_LIMITS, "-o", "plan.json"],
            ["show", "plan.json"],
            ["show", "plan.json", "--format", "markdown"],
            ["compare", preset, preset, "-o", "compare.md"],
        ]
        yield session_case(f"kept/{preset}.txt", commands, kept=["compare.md"])
    yield session_case(
        "kept/nodes.txt", [["plan", "pyboy-ppo", "--nodes", _NODES, "-o", "plan.json"], ["show", "plan.json"]]
    )
    yield session_case(
        "kept/placement.txt", [["workers", "pyboy-ppo", "--nodes", _NODES, "-o", "where.json"], ["show", "where.json"]]
    )
    yield session_case("kept/fit.txt", [["fit", "pidog-sac", "--ram", "8GB", "-o", "fit.json"], ["show", "fit.json"]])
    yield session_case(
        "kept/store.txt",
        [
            ["runs"],
            ["plan", "pidog-sac", *_LIMITS, "--save"],
            ["plan", "pidog-td3", *_LIMITS, "--save", "--json", "-o", "plan.json"],
            ["runs"],
            ["runs", "--json"],
            ["runs", "--kind", "plan", "--format", "markdown"],
            ["show", "c4ca4238"],
            ["show", "c4ca"],
            ["compare", "c4ca4238", "c81e728d"],
            ["runs", "--delete", "c4ca4238"],
            ["runs"],
        ],
    )


def _report(name: str, words: Sequence[str], files: Mapping[str, str] | None = None) -> Case:
    """The data inside an HTML report; its plan is only compared with the one that ``--json`` prints."""

    def make() -> Any:
        with own_folder(files) as folder:
            code, _, err = call([*words, "--html", "page.html"])
            page = Path("page.html").read_text(encoding="utf-8")
            _, plan, _ = call(["plan", *(word for word in words[1:] if word != "--redact"), "--json"])
        match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
        assert match is not None
        data = json.loads(steady(match[1], folder))
        if data["plan"] == json.loads(steady(plan, folder)):
            data["plan"] = "as 'rlmem plan --json' prints it"
        return {"command": list(words), "exit": code, "stderr": steady(err, folder), "data": data}

    return Case(name, make)


def _reports() -> Iterator[Case]:
    for preset in PRESETS:
        yield _report(f"report/{preset}.json", ["plan", preset, *_LIMITS])
    yield _report("report/assess.json", ["assess", "pidog-sac", "--ram", "12GB"])
    files = {"secret/own.yaml": RUNS["sb3-ppo-frames"]}
    yield _report("report/redacted.json", ["plan", "secret/own.yaml", *_LIMITS, "--redact"], files)


CASES: tuple[Case, ...] = (
    *_plans(),
    *_run_files(),
    *_counts(),
    *_fits(),
    *_assessments(),
    *_places(),
    *_comparisons(),
    *_buffers(),
    *_catalogues(),
    *_calibrations(),
    *_kept(),
    *_reports(),
)
