"""What a run really takes: the command a user would type, in a fresh process, without rlmem in it.

The process tree is watched from outside (``rlmem.runner``). ``hook/sitecustomize.py`` shortens Stable-Baselines3 runs
and says how; programs with their own loop run to their end as they are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accuracy.corpus import SCRIPTS, Entry
from rlmem.runner.child import run_child

HOOK = Path(__file__).parent / "hook"
PACKAGES = (
    "numpy",
    "torch",
    "gymnasium",
    "stable_baselines3",
    "sb3_contrib",
    "rl_zoo3",
    "mujoco",
    "ale_py",
    "elegantrl",
)
_VERSIONS = """
import json, platform, sys
from importlib import metadata
found = {"python": platform.python_version(), "linux": platform.release()}
for name in sys.argv[1:]:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """One measurement. ``imported_bytes`` is a process that holds the same modules and has done nothing else."""

    status: str
    note: str
    wall_s: float
    peak_bytes: int | None = None
    hwm_bytes: int | None = None
    imported_bytes: int | None = None
    processes: int = 1
    report: Mapping[str, Any] = field(default_factory=dict)


def measure(entry: Entry, *, python: str, cap_bytes: int, time_limit_s: float) -> Truth:
    """Run an entry once."""
    with tempfile.TemporaryDirectory(prefix="accuracy-") as name:
        folder = Path(name)
        report = folder / "report.json"
        env = {key: value for key, value in os.environ.items() if not key.startswith(("RLMEM_", "PYTHON"))}
        env |= {"PYTHONPATH": str(HOOK), "ACCURACY_REPORT": str(report)}
        env.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait leave the cores to those that work
        if entry.kind != "preset":  # the programs of presets are short already
            env["ACCURACY_SHORTEN"] = "1"
        work = folder / "work"
        work.mkdir()
        outcome = run_child(
            command(entry, python, folder), cwd=work, env=env, cap_bytes=cap_bytes, time_limit_s=time_limit_s
        )
        peak = outcome.peak
        if outcome.status != "ok" or not report.exists():
            note = outcome.describe() if outcome.status != "ok" else "the program left no report"
            return Truth(
                status=outcome.status if outcome.status != "ok" else "failed", note=note, wall_s=outcome.wall_s
            )
        done = json.loads(report.read_text())
        modules = done.pop("modules")
        return Truth(
            status="ok",
            note="",
            wall_s=outcome.wall_s,
            peak_bytes=peak.pss_bytes,
            hwm_bytes=max((each.hwm_bytes for each in peak.processes), default=0),
            imported_bytes=imported_level(modules, python, folder),
            processes=len(peak.processes),
            report=done,
        )


def command(entry: Entry, python: str, folder: Path) -> list[str]:
    """The very command, with the folder for whatever it writes."""
    if entry.kind == "zoo":
        algo, _, env = entry.subject.partition("/")
        logs = str(folder / "logs")
        return [python, "-m", "rl_zoo3.train", "--algo", algo, "--env", env, "--log-folder", logs, *entry.args]
    if entry.kind == "script":
        return [python, str(SCRIPTS / entry.subject), *entry.args]
    from rlmem.programs.cases import make_case
    from rlmem.sources import load

    case = make_case(load(entry.subject, entry.args))
    (folder / "case.json").write_text(json.dumps(case.body))
    return [python, str(case.path), str(folder / "case.json"), str(folder / "answer.json")]


def imported_level(modules: list[str], python: str, folder: Path) -> int | None:
    """Bytes of a process that has imported the same modules; None when that failed."""
    (folder / "modules.json").write_text(json.dumps(modules))
    env = {key: value for key, value in os.environ.items() if not key.startswith(("RLMEM_", "PYTHON"))}
    done = subprocess.run(
        [python, str(HOOK / "accuracy_imports.py"), str(folder / "modules.json")],
        capture_output=True, text=True, env=env, cwd=folder, timeout=300, check=False,
    )  # fmt: skip
    lines = done.stdout.strip().splitlines()
    return int(json.loads(lines[-1])["bytes"]) if done.returncode == 0 and lines else None


def versions(python: str) -> dict[str, str]:
    """What is installed in the interpreter of the runs."""
    done = subprocess.run([python, "-c", _VERSIONS, *PACKAGES], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        sys.exit(f"{python}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'cannot be run'}")
    return dict(json.loads(done.stdout))
