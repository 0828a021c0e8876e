"""What is done under pressure, step by step: a signal, a stop, or a checkpoint and then a stop.

Nothing here waits: ``tick`` is called while the run goes on, and does what is due. The hands that reach the process come in
as an argument.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

from rlmem.agent.protocol import CheckpointAnswer, Question
from rlmem.errors import AnalysisError
from rlmem.runner.guarding import Load, Policy

Say = Callable[[str, str], None]


class Hands(Protocol):
    """How a run is reached."""

    def terminate(self) -> None:
        """SIGTERM to its group and its marked tree."""

    def kill(self) -> None:
        """SIGKILL to the same."""

    def signal(self, number: int) -> None:
        """A signal to the command itself."""

    def pids(self) -> tuple[int, ...]:
        """Its processes, the command first."""

    def ask(self, pid: int, request: Question) -> CheckpointAnswer:
        """A question to one process's agent; AnalysisError where there is none."""

    def written(self, folder: str) -> int:
        """Bytes of the unfinished checkpoint in a folder."""


class Response:
    """The act level's answer, from the moment it is reached until the process is gone or memory is free again."""

    def __init__(self, policy: Policy, hands: Hands, say: Say) -> None:
        self._policy, self._hands, self._say = policy, hands, say
        self.state = "idle"
        #: The load that the run was stopped for.
        self.stopped_for: Load | None = None
        #: What the agent told of the last checkpoint.
        self.checkpoint: CheckpointAnswer = {}
        self._since = 0.0
        self._written = -1
        self._pid = 0
        self._load: Load | None = None

    def tick(self, now: float, over: Load | None) -> None:
        """Do what is due: ``over`` is the load at the act level, or None."""
        if self.state == "stopping":
            if now - self._since >= self._policy.grace_s:
                self.state = "killed"
                self._say("kill", f"still running {self._policy.grace_s:g} s after SIGTERM: SIGKILL")
                self._hands.kill()
        elif self.state == "killed":
            self._hands.kill()
        elif self.state in {"asked", "saving"}:
            self._follow(now, over)
        elif over is None:
            self.state = "idle"
        elif self.state == "checkpointed":
            self._stop(now, over, "still at the act level after the checkpoint")
        elif self.state == "idle":
            self._begin(now, over)

    def settle(self, answer: CheckpointAnswer) -> bool:
        """Take the outcome of a checkpoint that was asked for; whether there is one."""
        if self.state not in {"asked", "saving"} or answer.get("state") not in {"saved", "failed"}:
            return False
        self.state, self.checkpoint = "checkpointed", answer.copy()
        if answer["state"] == "saved":
            note = f"; {answer['message']}" if answer.get("message") else ""
            self._say("saved", f"checkpoint saved in {answer.get('folder')} ({answer.get('seconds', 0):.1f} s){note}")
        else:
            self._say("failed", f"the checkpoint failed: {answer.get('message')}")
        return True

    def _begin(self, now: float, over: Load) -> None:
        if self._policy.action == "stop":
            self._stop(now, over, over.sentence())
        elif self._policy.action == "signal":
            self.state = "signalled"
            name = signal.Signals(self._policy.signal).name
            self._say("signal", f"{over.sentence()}: sending {name}")
            self._hands.signal(self._policy.signal)
        elif self._policy.action == "checkpoint":
            self._ask(now, over)

    def _ask(self, now: float, over: Load) -> None:
        reasons = []
        for pid in self._hands.pids():
            try:
                answer = self._hands.ask(pid, {"ask": "checkpoint", "folder": self._policy.checkpoint_to})
            except AnalysisError as error:
                reasons.append(str(error))
                continue
            if answer.get("state") in {"asked", "saving"}:
                self.state, self._since, self._pid, self._written = str(answer["state"]), now, pid, -1
                self._load = over
                self._say("checkpoint", f"{over.sentence()}: asked for a checkpoint")
                return
            reasons.append(str(answer.get("message") or answer.get("error") or "no answer"))
        reason = reasons[0] if reasons else "no process to ask"
        self._stop(now, over, f"{over.sentence()}; no checkpoint can be made: {reason}")

    def _follow(self, now: float, over: Load | None) -> None:
        try:
            answer = self._hands.ask(self._pid, {"ask": "checkpoint"}).copy()
        except AnalysisError:  # busy in C code that keeps the lock of the interpreter: the time goes on
            answer = {}
        state = answer.get("state")
        if self.settle(answer):
            return
        if self._is_late(now):
            what = "was not finished" if self.state == "saving" else "was not taken by the training loop"
            self._stop(now, over, f"the checkpoint {what} within {self._policy.grace_s:g} s")
        elif state == "saving":
            self.state = "saving"

    def _is_late(self, now: float) -> bool:
        """Whether nothing has happened for the grace; a file that still grows is something."""
        written = self._hands.written(self._policy.checkpoint_to)
        if written > self._written:
            if written > 0:
                self._since = now
            self._written = written
        return now - self._since >= self._policy.grace_s

    def _stop(self, now: float, over: Load | None, why: str) -> None:
        self.state, self._since = "stopping", now
        self.stopped_for = over or self._load
        self._say("stop", f"{why}: stopping it (SIGTERM, SIGKILL after {self._policy.grace_s:g} s)")
        self._hands.terminate()
