"""RL Zoo entries that are tried in the background."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from dataclasses import dataclass, field

from rlmem.app.session import PlanSession, check_runnable
from rlmem.core.target import Target, executable_kind
from rlmem.errors import AnalysisError, RlmemError, UsageError
from rlmem.sources.target import parse_target

#: How long ending a child process may take.
CLOSE_S = 10.0


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
