"""One error tree; the command line turns each branch into an exit code."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RlmemError(Exception):
    """Anything rlmem can explain in one line: what happened, where, and what to do next."""

    exit_code = 3


class UsageError(RlmemError):
    """The request itself is wrong: an unknown name, a bad unit, a field that does not match the schema."""

    exit_code = 2


class SpecError(UsageError):
    """A run description does not match its schema; the message starts with the path of the field."""

    def __init__(self, path: str, problem: str, *, where: str | None = None) -> None:
        self.path, self.problem, self.where = path, problem, where
        place = f"{where}: " if where else ""
        super().__init__(f"{place}{path}: {problem}" if path else f"{place}{problem}")

    def located(self, where: str) -> SpecError:
        """The same error, naming the file or option the value came from."""
        return self if self.where else SpecError(self.path, self.problem, where=where)


class AnalysisError(RlmemError):
    """The request is fine but cannot be answered here (permission, a vanished process, a missing extra)."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` (did you mean 'x'?)`` for a near miss, else an empty string."""
    names = {name.lower(): name for name in known}
    close = get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    return f" (did you mean {names[close[0]]!r}?)" if close else ""
