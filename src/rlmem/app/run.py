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
from rlmem.errors import UsageError
from rlmem.process.attach import preload
from rlmem.process.tree import JOB_VARIABLE
from rlmem.runner.guarding import ACT_AT, GRACE_SECONDS, WARN_AT, Load, Policy, parse_action
from rlmem.runner.recording import Recorder
from rlmem.runner.store import utc_now
from rlmem.runner.supervise import RUN_VARIABLE, Ended, Supervision
from rlmem.units import parse_size
from rlmem.version import __version__

#: Letters of a command that stand for a run without a script in lists.
LONGEST_NAME = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The command to run, its limits as they were typed, and how often to look.

    Attributes:
        command: the command with its arguments.
        max_ram: memory its processes may use together.
        max_vram: memory of the GPU it may use.
        max_threads: threads its processes may have together.
        warn_at: percentage of a limit from which on it is said who holds the memory.
        act_at: percentage from which on something is done.
        on_pressure: what: ``checkpoint``, ``stop``, ``signal:NAME`` or ``none``; without one, stop where there is a limit
            of its own.
        checkpoint_to: where checkpoints go.
        grace_s: time to take a checkpoint, and between SIGTERM and SIGKILL.
        interval_s: time between looks.
        is_kept: whether the run goes to the store.
        invocation: the command line of rlmem itself, which the store keeps.

    Raises:
        UsageError: there is no command, or the warning would come after what is done.
    """

    command: tuple[str, ...]
    max_ram: str | None = None
    max_vram: str | None = None
    max_threads: int | None = None
    warn_at: float = 100 * WARN_AT
    act_at: float = 100 * ACT_AT
    on_pressure: str | None = None
    checkpoint_to: Path = Path("rlmem-checkpoints")
    grace_s: float = GRACE_SECONDS
    interval_s: float = 1.0
    is_kept: bool = True
    invocation: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("no command to run; write it behind --, such as: rlmem run -- python train.py")
        if self.warn_at > self.act_at:
            raise UsageError(f"--warn-at {self.warn_at:g} is above --act-at {self.act_at:g}")

    def policy(self) -> Policy:
        """Return what is done when a limit comes near.

        Raises:
            UsageError: an action or a size that is none.
        """
        is_limited = bool(self.max_ram or self.max_vram or self.max_threads)
        action, number = parse_action(self.on_pressure or ("stop" if is_limited else "none"))
        return Policy(
            max_ram_bytes=parse_size(self.max_ram) if self.max_ram else None,
            max_vram_bytes=parse_size(self.max_vram) if self.max_vram else None,
            max_threads=self.max_threads,
            warn_at=self.warn_at / 100,
            act_at=self.act_at / 100,
            action=action,
            signal=number,
            grace_s=self.grace_s,
            checkpoint_to=str(self.checkpoint_to.absolute()),
        )


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
    """Run a command to its end; it keeps the terminal, and ``say`` takes lines meanwhile.

    Raises:
        UsageError: an action or a size that is none.
    """
    policy = request.policy()
    recording = Recording(
        target=name_of(request.command),
        command=request.command,
        policy=policy.part(),
        interval_s=request.interval_s,
        rlmem=__version__,
        started=utc_now(),
    )
    recorder = Recorder(request.invocation, recording, say=say) if request.is_kept else None
    job = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="rlmem-run-", ignore_cleanup_errors=True) as folder:
        supervision = Supervision(
            request.command,
            policy,
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
