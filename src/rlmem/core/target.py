"""Targets: what the user wants to plan, measure or fit."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

#: ``preset`` stands for every name that is nothing else, so an unknown one is refused where presets are read.
Kind = Literal["preset", "file", "script", "factory", "zoo", "rllib", "run"]
ZOO, RLLIB = "zoo:", "rllib:"
#: As git: shorter prefixes match too much by chance.
SHORTEST_RUN_ID = 4
#: ``package.module:function``; a Windows path or a URL is not one.
_FACTORY = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")
_RUN_ID = re.compile(rf"[0-9a-f]{{{SHORTEST_RUN_ID},32}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The name of a run, with its arguments, settings and interpreter. Nothing is read or started."""

    kind: Kind
    text: str
    #: Arguments of a script, after ``--``.
    args: tuple[str, ...] = ()
    #: ``--set`` items.
    sets: tuple[str, ...] = ()
    #: Path of the interpreter that runs it.
    python: str | None = None

    @property
    def is_executable(self) -> bool:
        """Whether it is planned by running it: a script, a factory, an RL Zoo entry."""
        return self.kind in ("script", "factory", "zoo")

    @property
    def name(self) -> str:
        """Return a short name for titles."""
        return self.text.rpartition("/")[2] if self.kind == "script" else self.text


def executable_kind(text: str) -> Literal["script", "factory", "zoo"] | None:
    """Return the kind of a target that is planned by running it, None for all others."""
    if text.startswith(ZOO):
        return "zoo"
    if text.startswith(RLLIB):
        return None
    if text.endswith(".py"):
        return "script"
    return "factory" if _FACTORY.match(text) else None


def looks_like_run(text: str) -> bool:
    """Return whether a word could be the id of a stored run, or the start of one."""
    return _RUN_ID.fullmatch(text) is not None
