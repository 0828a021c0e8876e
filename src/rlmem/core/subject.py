"""A run that was planned, and what can be asked of its plan: other limits, other values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.core.target import Target
from rlmem.errors import AnalysisError, SpecError

#: Where the values of a changed run come from, in words. Runs that are changed alike are predicted once: it is the same for all.
CHANGED = "remedy"


class PlanSource(Protocol):
    """Makes plans, without findings; what it has predicted once it does not predict again for another budget."""

    def plan(self, asked: RunSpec, budget: Budget) -> Plan:
        """Return the plan of a run by its description.

        Raises:
            SpecError: the run is not one that could be built.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A run as it was asked for, with its plan."""

    asked: RunSpec
    #: Findings are in it once somebody has asked for them.
    plan: Plan
    source: PlanSource
    #: Whether the source can plan the run changed; a loop of its own is only known as it is.
    is_changeable: bool = True
    #: What was run a little to plan it; None for a run that was described.
    target: Target | None = None
    #: Packages of the interpreter it was run with.
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> RunSpec:
        """The run with its framework's defaults."""
        return self.plan.spec

    def under(self, budget: Budget) -> Subject:
        """Return the same run against another budget; nothing is predicted again."""
        return replace(self, plan=self.source.plan(self.asked, budget))

    def plan_of(self, asked: RunSpec) -> Plan:
        """Return the plan of the run changed, against the same budget.

        Raises:
            AnalysisError: the run is only known as it is.
            SpecError: the changed run is not one that could be built.
        """
        if not self.is_changeable:
            raise AnalysisError(f"{self.asked.name} can only be planned as it is")
        return self.source.plan(asked, self.plan.budget)

    def having(self, changes: Mapping[str, Any], origin: str = CHANGED) -> Subject:
        """Return the run with other values; errors are those of :meth:`plan_of`."""
        asked = self.asked.having(changes, origin)
        return replace(self, asked=asked, plan=self.plan_of(asked))

    def changed(self, changes: Mapping[str, Any]) -> Plan:
        """Return the plan of the run with other values; errors are those of :meth:`plan_of`."""
        return self.plan_of(self.asked.having(changes, CHANGED))

    def saving(self, changes: Mapping[str, Any]) -> int:
        """Return the peak bytes that changes save on the device they help most; 0 when that is none, or the run is refused."""
        try:
            after = self.changed(changes)
        except SpecError:
            return 0
        differences = [
            before.expected_bytes - (now.expected_bytes if now else 0)
            for before in self.plan.tops
            for now in (after.top(before.device),)
        ]
        return max(*differences, 0)
