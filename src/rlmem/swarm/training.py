"""The loop around a run: iterations until they are done, a signal comes or something goes wrong; what was learnt is kept."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from rlmem.errors import AnalysisError, RlmemError, UsageError
from rlmem.swarm.checkpoint import Checkpoint, save
from rlmem.swarm.curve import json_line
from rlmem.swarm.settings import Settings

if TYPE_CHECKING:
    from rlmem.documents.swarm import TrainStatus
    from rlmem.swarm.run import Iteration, SwarmRun

#: Ctrl-C, a scheduler that wants the machine back, a terminal that was closed.
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
#: Takes the row of an iteration.
Log: TypeAlias = Callable[[Mapping[str, Any]], None]


class Telling(Protocol):
    """Shows how far a run is."""

    def over(self, row: Mapping[str, Any]) -> None:
        """An iteration is over."""

    def inside(self, phase: str, done: int, total: int) -> None:
        """A chunk is; often called, so it must be cheap."""

    def warn(self, text: str) -> None:
        """Something is not as it should be, and the run goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended, and what there is to say."""

    status: TrainStatus
    text: str = ""
    exit_code: int = 0
    #: Whether the last whole iteration is on disk.
    kept: bool = False


class EndedAtOnceError(BaseException):
    """A second signal: nothing more is written."""


class Signals:
    """Signals are noted, and taken where nothing is half done; a second one is taken at once.

    Those that were ignored when the program was started stay ignored.
    """

    def __init__(self, notice: str = "") -> None:
        self.number: int | None = None
        self._writing = False
        self._notice = notice

    def check(self) -> None:
        """End here if a signal asked for it."""
        if self.number is not None:
            raise KeyboardInterrupt

    @property
    def name(self) -> str:
        """``SIGINT``, when one came."""
        return "" if self.number is None else signal.Signals(self.number).name

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.number is not None and not self._writing:
            raise EndedAtOnceError
        if self.number is None and self._notice:
            with suppress(OSError):  # not print: whatever was being printed may be half done
                os.write(2, f"\n{self._notice}\n".encode())
        self.number = self.number or number

    @contextmanager
    def writing(self) -> Iterator[None]:
        """However often Ctrl-C is pressed, this is finished."""
        self._writing = True
        try:
            yield
        finally:
            self._writing = False

    @contextmanager
    def caught(self) -> Iterator[Signals]:
        """Signals come here; in another thread than the main one none can."""
        before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            numbers = (getattr(signal, name) for name in SIGNALS if hasattr(signal, name))
            before = {n: old for n in numbers if (old := signal.getsignal(n)) not in {None, signal.SIG_IGN}}
        try:
            for number in before:
                signal.signal(number, self._note)
            yield self
        finally:
            for number, old in before.items():
                signal.signal(number, old)


class Training:
    """One run from where it stands to its last iteration."""

    def __init__(
        self,
        run: SwarmRun,
        settings: Settings,
        *,
        rows: tuple[Mapping[str, Any], ...] = (),
        path: Path | None = None,
        every: int | None = None,
        on_disk: bool = False,
        threads: int | None = None,
        torch_version: str = "",
        is_finite: Callable[[], bool] = lambda: True,
        notice: str = "",
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """``path`` is where the run is kept: every ``every`` iterations, and when it is stopped.

        ``is_finite`` says whether the networks still are, after an update; ``notice`` is said when a signal was noted.
        """
        self.run, self.settings, self.rows, self.path = run, settings, list(rows), path
        self._every, self._threads, self._torch, self._clock = every, threads, torch_version, clock
        self._is_finite, self._notice = is_finite, notice
        #: Iterations done that came to something, and those of them that are on disk.
        self.done = run.iteration
        self._saved = run.iteration if on_disk else None
        self._before: Mapping[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether all iterations are done."""
        return bool(self.run.iteration >= self.settings.iterations)

    def train(self, telling: Telling, log: Log, *, keep_last: bool = False) -> Ended:
        """Iterate; however it ends, the last whole iteration is on disk if there is a place for it."""
        first = self.done
        with Signals(self._notice).caught() as signals:
            try:
                ended = self._iterate(signals, telling, log)
            except EndedAtOnceError:
                number = signals.number or signal.SIGINT
                return Ended(status="interrupted", text=f"{signals.name} twice", exit_code=128 + number)
            except Exception:  # a bug, or a GPU that fell off: what was learnt before is worth a try
                with signals.writing(), suppress(Exception):
                    self._keep_learnt(first)
                raise
            if ended.status == "done" and not keep_last:
                return ended
            with signals.writing():
                return self._kept(ended, telling)

    def _keep_learnt(self, first: int) -> None:
        if self.done > first:
            self.keep()

    def _kept(self, ended: Ended, telling: Telling) -> Ended:
        """The end, with the run on disk if there is room."""
        code = ended.exit_code
        try:
            self.keep()
        except RlmemError as error:
            telling.warn(str(error))
            code = code or error.exit_code
        return replace(ended, exit_code=code, kept=self.path is not None and self._saved == self.done)

    def _iterate(self, signals: Signals, telling: Telling, log: Log) -> Ended:
        def tell(phase: str, done: int, total: int) -> None:
            signals.check()
            telling.inside(phase, done, total)

        while not self.is_over:
            start = self._clock()
            try:
                signals.check()
                self._remember()
                iteration = self.run.iterate(tell)
            except KeyboardInterrupt:
                number = signals.number or signal.SIGINT
                return Ended(status="interrupted", text=signal.Signals(number).name, exit_code=128 + number)
            except AnalysisError as error:
                if not type(error).__name__.startswith("NotFinite"):  # by name: its module needs torch
                    raise
                text = f"iteration {self.run.iteration + 1}, {error}"
                return Ended(status="not-finite", text=text, exit_code=error.exit_code)
            except (RuntimeError, MemoryError) as error:
                if not ran_out(error):
                    raise
                return Ended(status="out-of-memory", text=_first_line(error), exit_code=1)
            row = row_of(iteration, self.settings, self._clock() - start)
            if not self._is_finite():
                text = (
                    f"iteration {row['iteration']}, update: the networks are no longer finite (a lower learning rate?)"
                )
                return Ended(status="not-finite", text=text, exit_code=AnalysisError.exit_code)
            self.rows.append(row)
            self.done = self.run.iteration
            telling.over(row)
            with signals.writing():
                self._write(row, telling, log)
        return Ended(status="done")

    def _write(self, row: Mapping[str, Any], telling: Telling, log: Log) -> None:
        """A full disk does not end a run of hours: it goes on, and what was kept before is still there."""
        try:
            log(row)
        except RlmemError as error:
            telling.warn(str(error))
        if self._every is None or self.run.iteration % self._every:
            return
        try:
            self.keep()
        except RlmemError as error:
            telling.warn(str(error))

    def _remember(self) -> None:
        """The networks before an iteration, in case its update ruins them; a carried history is too large to have twice."""
        self._before = self.run.state() if self.settings.history == "reset" else None

    def keep(self) -> None:
        """Write the last whole iteration, unless it is there already."""
        if self.path is None or self._saved == self.done:
            return
        state = self.run.state() if self.run.iteration == self.done else self._before
        if state is None:
            return
        checkpoint = Checkpoint(
            settings=self.settings,
            state=state,
            rows=tuple(self.rows),
            threads=self._threads,
            torch=self._torch,
        )
        save(self.path, checkpoint)
        self._saved = self.done


def row_of(iteration: Iteration, settings: Settings, seconds: float) -> dict[str, Any]:
    """What is remembered of an iteration, in plain values."""
    return {
        "iteration": int(iteration.number),
        "reward": float(iteration.reward),
        "policy_loss": float(iteration.policy_loss),
        "value_loss": float(iteration.value_loss),
        "ae_loss": float(iteration.ae_loss),
        "seconds": seconds,
        "agent_steps_per_s": settings.agents * settings.steps / seconds if seconds > 0 else 0.0,
        "phases": {name: float(value) for name, value in iteration.seconds.items()},
        "stored_bytes": int(iteration.stored_bytes),
    }


@contextmanager
def log_to(path: Path | None, *, append: bool) -> Iterator[Log]:
    """A line of JSON an iteration, handed to the system at once."""
    if path is None:
        yield lambda row: None
        return
    try:
        stream = path.open("a" if append else "w", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--log {path}: {error.strerror or error}") from None

    failed = False

    def log(row: Mapping[str, Any]) -> None:
        nonlocal failed
        if failed:  # said once
            return
        try:
            stream.write(json_line(row))
            stream.flush()
        except OSError as error:
            failed = True
            raise AnalysisError(f"--log {path}: {error.strerror or error}") from None

    try:
        yield log
    finally:
        with suppress(OSError):  # said already, line by line
            stream.close()


def ran_out(error: BaseException) -> bool:
    """Torch says so with a class of its own on a GPU, and in words on the CPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return "not enough memory" in str(error) or "can't allocate memory" in str(error)


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["out of memory"])[0]
