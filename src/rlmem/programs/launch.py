"""Runs a program in a training interpreter: the case in a file, the answer and where it was from files, limits around it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from rlmem.agent.protocol import ProgramStatus
from rlmem.errors import AnalysisError, UsageError
from rlmem.process.interpreters import named_python
from rlmem.process.protocol import check_protocol
from rlmem.process.sampler import Sample
from rlmem.runner.child import Outcome, run_child

PROBE_SECONDS = 60
_PROBE = "import importlib.util, sys; print(*[n for n in sys.argv[1:] if importlib.util.find_spec(n) is None])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a program said: its answer (empty when it was killed) and the last word of its status file."""

    outcome: Outcome
    body: Mapping[str, Any] = field(default_factory=dict)
    status: ProgramStatus = field(default_factory=ProgramStatus)

    @property
    def error(self) -> str | None:
        """The exception that ended the program, in one line."""
        error = self.body.get("error")
        return None if error is None else " ".join(str(error).split())[:300]

    @property
    def phase(self) -> str | None:
        """The phase it was in when it ended."""
        phase = self.status.get("phase")
        return None if phase is None else str(phase)


def training_python(python: str | None, packages: tuple[str, ...]) -> str:
    """The interpreter to use; an error when it lacks what the program imports."""
    if python is None:
        missing = missing_packages(sys.executable, packages)
        if missing:
            raise UsageError(f"this interpreter has no {' and no '.join(missing)}; pass --python PATH")
        return sys.executable
    found = named_python(python)
    missing = missing_packages(found, packages)
    if missing:
        raise UsageError(f"--python {python} has no {' and no '.join(missing)}; install it there, or name another")
    return found


@lru_cache(maxsize=64)
def missing_packages(python: str, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Packages an interpreter does not have (looked for, not imported)."""
    try:
        done = subprocess.run(
            [python, "-c", _PROBE, *packages],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--python {python}: cannot be run: {error}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise UsageError(f"--python {python}: does not answer like a Python interpreter: {last}")
    return tuple(done.stdout.split())


def launch(
    program: Path,
    body: Mapping[str, Any],
    python: str,
    *,
    cap_bytes: int | None = None,
    time_limit_s: float | None = None,
    env: Mapping[str, str] | None = None,
    on_tick: Callable[[Sample, ProgramStatus], None] | None = None,
) -> Answer:
    """One case in a fresh process; ``on_tick`` gets a sample and the status so far, about ten times a second."""
    with tempfile.TemporaryDirectory(prefix="rlmem-case-") as name:
        folder = Path(name)
        case, answer, status = (folder / f"{part}.json" for part in ("case", "answer", "status"))
        case.write_text(json.dumps(body), encoding="utf-8")
        tick = None if on_tick is None else lambda sample: on_tick(sample, _status(status))
        outcome = run_child(
            [python, program, case, answer],
            env={**os.environ, "RLMEM_STATUS": str(status), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            cap_bytes=cap_bytes,
            time_limit_s=time_limit_s,
            on_tick=tick,
        )
        said = _read(answer)
        check_protocol(said, program.name)
        if outcome.status == "ok" and not said:
            raise AnalysisError(f"{program.name} ended without an answer: {outcome.describe()}")
        return Answer(outcome=outcome, body=said, status=_status(status))


def _status(path: Path) -> ProgramStatus:
    """The last word of a program's status file."""
    return cast("ProgramStatus", _read(path))


def _read(path: Path) -> dict[str, Any]:
    """A program's JSON; empty when it is not there, or was cut off."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
