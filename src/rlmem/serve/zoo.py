"""RL Zoo entries: which there are, and trying one in the background."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from rlmem.app.session import PlanSession, check_runnable
from rlmem.core.target import ZOO, Target, executable_kind
from rlmem.errors import AnalysisError, RlmemError, UsageError
from rlmem.runner.child import run_child
from rlmem.sources.config import parse_yaml, read_text
from rlmem.sources.target import parse_target

_FIND = "import importlib.util as u; s = u.find_spec('rl_zoo3'); print(s.submodule_search_locations[0] if s else '')"
_ALL = "default"
#: How long ending a child process may take.
CLOSE_S = 10.0


def entries(python: str | None) -> tuple[str, ...]:
    """``zoo:ALGO/ENV`` of every entry of the rl_zoo3 that is installed; nothing where there is none."""
    folder = _folder(python)
    if folder is None:
        return ()
    found = []
    for path in sorted((folder / "hyperparams").glob("*.yml")):
        try:
            data, _ = parse_yaml(read_text(path), path.name)
        except UsageError:
            continue
        names = data if isinstance(data, dict) else {}
        found += [f"{ZOO}{path.stem}/{name}" for name in names if isinstance(name, str) and name not in (_ALL, "atari")]
    return tuple(found)


def _folder(python: str | None) -> Path | None:
    if python is None:
        spec = importlib.util.find_spec("rl_zoo3")
        places = list(spec.submodule_search_locations or ()) if spec else []
        return Path(places[0]) if places else None
    outcome = run_child([python, "-c", _FIND], cwd=Path.cwd(), env=dict(os.environ), time_limit_s=30)
    text = outcome.stdout.strip() if outcome.status == "ok" else ""
    return Path(text) if text else None


@dataclass(slots=True)
class Job:
    """One dry run: under way, done, or failed with a line that says why."""

    target: str
    state: str = "running"
    problem: str = ""


@dataclass(slots=True)
class Trying:
    """Dry runs, one at a time: each may take most of the memory there is."""

    session: PlanSession
    python: str | None = None
    jobs: dict[str, Job] = field(default_factory=dict)
    _ending: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _work: threading.Lock = field(default_factory=threading.Lock)

    def start(self, target: str) -> Job:
        """Try an entry, unless that is being done or has been."""
        if executable_kind(target) != "zoo":
            raise UsageError(f"{target[:80]!r} is not an RL Zoo entry (zoo:ALGO/ENV)")
        entry = parse_target(target, python=self.python or sys.executable)
        check_runnable(entry)  # an error that can be told at once
        with self._lock:
            job = self.jobs.get(target)
            if job is not None and job.state != "failed":
                return job
            job = self.jobs[target] = Job(target=target)
            thread = threading.Thread(target=self._run, args=(job, entry), name="rlmem-dry-run", daemon=True)
            self._threads.append(thread)
        thread.start()
        return job

    def close(self) -> None:
        """End what is under way, its child process too, and wait for that."""
        self._ending.set()
        for thread in self._threads:
            thread.join(CLOSE_S)

    def _tick(self, _sample: object) -> None:
        if self._ending.is_set():
            raise AnalysisError("the server was stopped")

    def _run(self, job: Job, entry: Target) -> None:
        with self._work:
            try:
                self._tick(None)
                self.session.try_run(entry, lambda what: nullcontext(self._tick))
                job.state = "done"
            except RlmemError as error:
                job.state, job.problem = "failed", str(error)
            except Exception as error:  # a thread has nobody else to tell
                job.state, job.problem = "failed", f"{type(error).__name__}: {error}"
