"""What a rule is. Its module's docstring is its manual page; on a plan, its saving is a difference of two plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rlmem.core.findings import Finding
from rlmem.core.holdings import TreeExplanation
from rlmem.core.subject import Subject
from rlmem.scripts import Script

#: What a rule can be asked about, and the function of its module that answers.
SUBJECTS = {"script": "check_script", "plan": "check", "live": "check_live"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table: identity, and a check for each subject it knows."""

    code: str
    name: str
    family: str
    severity: str
    subjects: tuple[str, ...]
    on_script: Callable[[Rule, Script], Iterator[Finding]] | None = None
    on_plan: Callable[[Rule, Subject], Iterator[Finding]] | None = None
    on_live: Callable[[Rule, TreeExplanation], Iterator[Finding]] | None = None

    def finding(self, title: str, **more: Any) -> Finding:
        """A finding of this rule; ``severity`` may be overridden for a milder case, and ``changes`` is a mapping."""
        changes = tuple(more.pop("changes", {}).items())
        return Finding(
            code=self.code, name=self.name, title=title, changes=changes, **{"severity": self.severity, **more}
        )
