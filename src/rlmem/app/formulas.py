"""Why a component of a plan is as large as it is."""

from __future__ import annotations

from rlmem.core.ledger import matches
from rlmem.documents.formulas import FormulasDocument
from rlmem.documents.plan import PlanDocument
from rlmem.errors import UsageError, did_you_mean


def formulas(document: PlanDocument, component: str) -> FormulasDocument:
    """Return the entries of a component or a group, with their formulas.

    Raises:
        UsageError: the plan has no such component.
    """
    entries = tuple(entry for entry in document.entries if matches(entry.component, component))
    if not entries:
        known = sorted({entry.component for entry in document.entries})
        groups = ", ".join(sorted({name.split(".")[0] for name in known}))
        raise UsageError(f"--why {component!r}: no such component{did_you_mean(component, known)}; groups: {groups}")
    return FormulasDocument(component=component, entries=entries)
