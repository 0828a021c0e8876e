"""The flow in one place: description → resolved spec → ledger → peaks and verdict → findings."""

from __future__ import annotations

from dataclasses import replace

from rlmem.frameworks import find_adapter, predict, resolve
from rlmem.ledger import Ledger
from rlmem.model.constants import Constants
from rlmem.plan import Budget, Plan
from rlmem.rules import find
from rlmem.rules.base import Context
from rlmem.spec import RunSpec


class Planner:
    """Plans runs against one budget with one set of constants."""

    def __init__(self, budget: Budget, constants: Constants | None = None) -> None:
        self.budget, self.constants = budget, constants or Constants()

    def plan(self, spec: RunSpec, *, findings: bool = True) -> Plan:
        """The plan of a run; ``findings=False`` when only sizes are wanted."""
        resolved = resolve(spec)
        ledger = predict(resolved, self.constants)
        if self.budget.unified:
            ledger = _unified(ledger)
        plan = Plan(
            spec=resolved,
            budget=self.budget,
            ledger=ledger,
            peaks=ledger.peaks(self.budget.limits),
            notes=find_adapter(resolved).notes(resolved),
        )
        if not findings:
            return plan
        # Rules change what was *asked for*, so that defaults which follow from it follow again.
        context = Context(plan=plan, asked=spec, replan=lambda other: self.plan(other, findings=False))
        return replace(plan, findings=find(context))


def _unified(ledger: Ledger) -> Ledger:
    """One pool for RAM and VRAM: everything counts against RAM."""
    floors: dict[tuple[str, str], int] = {}
    for (_, phase), low in ledger.floors.items():
        floors["ram", phase] = floors.get(("ram", phase), 0) + low
    return Ledger(tuple(replace(entry, device="ram") for entry in ledger.entries), floors)
