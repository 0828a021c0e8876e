"""A target that can be run, with the interpreter to run it with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlmem.agent.protocol import TargetJob
from rlmem.core.target import ZOO, Target
from rlmem.errors import UsageError
from rlmem.process.interpreters import find_python


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnableTarget(Target):
    """A script, a factory or an RL Zoo entry, with the interpreter and the folder to run it in."""

    python: str
    python_source: str
    folder: Path

    def job(self, scratch: Path) -> TargetJob:
        """Return what the agent is told to run; ``scratch`` is a folder for whatever the target must write."""
        if self.kind == "script":
            return {"kind": "script", "path": str(Path(self.text).resolve()), "args": list(self.args)}
        if self.kind == "factory":
            module, _, name = self.text.partition(":")
            return {"kind": "factory", "module": module, "name": name, "args": list(self.args)}
        algo, _, env = self.text[len(ZOO) :].partition("/")
        args = ["--algo", algo, "--env", env, "--log-folder", str(scratch), *self.args]
        return {"kind": "module", "name": "rl_zoo3.train", "args": args}


def find_runnable(
    target: Target, *, environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> RunnableTarget:
    """Return an executable target with its interpreter.

    Args:
        target: a script, a factory or an RL Zoo entry.
        environ: environment variables, for an active virtual environment.
        folder: where it is started; the current folder when None.

    Raises:
        UsageError: there is no such script or interpreter, or the entry is not written as one.
    """
    here, text = folder or Path.cwd(), target.text
    script, beside = None, here
    if target.kind == "zoo":
        algo, slash, env = text[len(ZOO) :].partition("/")
        if not (algo and slash and env):
            raise UsageError(f"{text}: an RL Zoo entry is written zoo:ALGO/ENV, such as zoo:sac/HalfCheetah-v4")
    elif target.kind == "script":
        script = Path(text)
        if not script.exists():
            raise UsageError(f"{text}: no such file")
        if not script.is_file():
            raise UsageError(f"{text}: not a file")
        beside = script.resolve().parent
    python, source = find_python(script, beside, target.python, environ)
    return RunnableTarget(
        kind=target.kind,
        text=text,
        args=target.args,
        sets=target.sets,
        python=python,
        python_source=source,
        folder=here,
    )
