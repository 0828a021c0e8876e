"""What a rule is. Its module's docstring is its manual page; on a plan, its saving is a difference of two plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlmem.errors import SpecError
from rlmem.findings import Finding
from rlmem.holdings import TreeExplanation
from rlmem.plan import Plan
from rlmem.scripts import Script
from rlmem.spec import RunSpec

#: What a rule can be asked about, and the function of its module that answers.
SUBJECTS = {"script": "check_script", "plan": "check", "live": "check_live"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a rule sees: the plan, the run as it was asked for, and a way to plan a changed run."""

    plan: Plan
    asked: RunSpec
    replan: Callable[[RunSpec], Plan]
    #: Plans of changed runs that some rule has asked for already.
    known: dict[str, Plan] = field(default_factory=dict)

    @property
    def spec(self) -> RunSpec:
        """The run with its framework's defaults."""
        return self.plan.spec

    def changed(self, changes: Mapping[str, Any], why: str) -> Plan:
        """The plan of the run with other values."""
        key = repr(sorted(changes.items()))
        if key not in self.known:
            self.known[key] = self.replan(self.asked.having(changes, f"remedy: {why}"))
        return self.known[key]

    def saving(self, changes: Mapping[str, Any], why: str) -> int:
        """Peak bytes saved on the device the change helps most; 0 when it saves nothing or cannot be planned."""
        try:
            after = self.changed(changes, why)
        except SpecError:
            return 0
        differences = [
            before.expected_bytes - (now.expected_bytes if now else 0)
            for before in self.plan.tops
            for now in (after.top(before.device),)
        ]
        return max(*differences, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table: identity, and a check for each subject it knows."""

    code: str
    name: str
    family: str
    severity: str
    subjects: tuple[str, ...]
    on_script: Callable[[Rule, Script], Iterator[Finding]] | None = None
    on_plan: Callable[[Rule, Context], Iterator[Finding]] | None = None
    on_live: Callable[[Rule, TreeExplanation], Iterator[Finding]] | None = None

    def finding(self, title: str, **more: Any) -> Finding:
        """A finding of this rule; ``severity`` may be overridden for a milder case, and ``changes`` is a mapping."""
        changes = tuple(more.pop("changes", {}).items())
        return Finding(
            code=self.code, name=self.name, title=title, changes=changes, **{"severity": self.severity, **more}
        )
