"""A command run in the foreground: recorded, guarded, and told about at its end."""

from __future__ import annotations

import os
import shlex
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rlmem.core.moments import Moment
from rlmem.documents.recorded import RecordedDocument, Recording
from rlmem.process.attach import preload
from rlmem.process.tree import JOB_VARIABLE
from rlmem.runner.guarding import Load, Policy
from rlmem.runner.recording import Recorder
from rlmem.runner.store import utc_now
from rlmem.runner.supervise import RUN_VARIABLE, Ended, Supervision
from rlmem.version import __version__

#: Letters of a command that stand for a run without a script in lists.
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The command to run, its limits, and how often to look.

    ``invocation`` is the command line of rlmem itself, which the store keeps.
    """

    command: tuple[str, ...]
    policy: Policy
    interval_s: float = 1.0
    is_kept: bool = True
    invocation: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended, with all that was seen; ``run`` is its id in the store, where it is kept."""

    ended: Ended
    recording: Recording
    moments: tuple[Moment, ...]
    run: str | None = None

    def document(self) -> RecordedDocument:
        """Return the same as a document."""
        from rlmem.app.recorded import (
            recorded_document,  # the planner is no burden to the machine while the command runs
        )

        return replace(recorded_document(self.recording, self.moments), run=self.run)


def run(request: RunRequest, say: Callable[[str], None]) -> Outcome:
    """Run a command to its end; it keeps the terminal, and ``say`` takes lines meanwhile."""
    recording = Recording(
        target=name_of(request.command),
        command=request.command,
        policy=request.policy.part(),
        interval_s=request.interval_s,
        rlmem=__version__,
        started=utc_now(),
    )
    recorder = Recorder(request.invocation, recording, say=say) if request.is_kept else None
    job = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="rlmem-run-", ignore_cleanup_errors=True) as folder:
        supervision = Supervision(
            request.command,
            request.policy,
            env={**preload(os.environ), JOB_VARIABLE: job, RUN_VARIABLE: folder},
            job=job,
            folder=Path(folder),
            say=say,
            advise=_advice,
            recorder=recorder,
            interval_s=request.interval_s,
        )
        ended = supervision.go()
    recording = replace(recording, ended=ended.part())
    if recorder is not None:
        recorder.finish(ended.status, recording)
    return Outcome(
        ended=ended,
        recording=recording,
        moments=supervision.timeline.moments,
        run=recorder.run if recorder and not recorder.problem else None,
    )


def _advice(pid: int, limit: Load | None) -> tuple[str, ...]:
    """Ask the planner, which is loaded only when a limit comes near."""
    from rlmem.app.advice import advice_lines

    return advice_lines(pid, limit)


def name_of(command: Sequence[str]) -> str:
    """Return what a run is called in lists: its script, else the command."""
    script = next((word for word in command if word.endswith(".py")), None)
    if script:
        return os.path.basename(script)
    name = " ".join(shlex.join(command).split())
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1].rstrip()}…"
