"""The flow in one place: description → resolved spec → ledger → peaks and verdict → findings."""

from __future__ import annotations

from threading import Lock

from rlmem.core.ledger import Ledger
from rlmem.core.plan import Budget, Plan, judge
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.frameworks import find_adapter, predict, resolve
from rlmem.model.constants import Constants
from rlmem.rules import with_findings

#: Predictions that are kept, the oldest go first. A ledger takes about 100 kB; `rlmem fit` asks for some 300 different runs.
MOST_KEPT = 512


class ClosedForm:
    """Plans by arithmetic over a description, with one set of constants; each run is predicted once, whatever the limits."""

    def __init__(self, constants: Constants | None = None) -> None:
        self.constants = constants or Constants()
        #: How many runs were predicted: another limit adds none.
        self.predictions = 0
        self._kept: dict[tuple[str, str], tuple[RunSpec, Ledger]] = {}
        self._lock = Lock()

    def subject(self, asked: RunSpec, budget: Budget) -> Subject:
        """Return a described run, planned against a budget."""
        return Subject(asked=asked, plan=self.plan(asked, budget), source=self)

    def plan(self, asked: RunSpec, budget: Budget) -> Plan:
        """The plan of a run against a budget, without findings."""
        spec, ledger = self.predict(asked)
        return judge(ledger, budget, spec=spec, notes=find_adapter(spec).notes(spec))

    def predict(self, asked: RunSpec) -> tuple[RunSpec, Ledger]:
        """The run with its framework's defaults, and its ledger."""
        # A formula names where its values come from, so that the same values from elsewhere are another ledger.
        key = asked.key, repr(sorted(asked.origins.items()))
        kept = self._kept.get(key)
        if kept is None:
            spec = resolve(asked)
            kept = spec, predict(spec, self.constants)
            with self._lock:
                self.predictions += 1
                self._kept[key] = kept
                while len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
        return kept


class Planner:
    """Plans runs against one budget with one set of constants."""

    def __init__(self, budget: Budget, constants: Constants | None = None) -> None:
        self.budget, self.constants = budget, constants or Constants()

    def plan(self, spec: RunSpec) -> Plan:
        """The plan of a run, with findings."""
        # Rules change what was *asked for*, so that defaults which follow from it follow again.
        return with_findings(ClosedForm(self.constants).subject(spec, self.budget)).plan
