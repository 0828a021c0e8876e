"""rlmem: memory for reinforcement learning, from plan to post-mortem.

Everything here is loaded when it is first used: importing the package starts nothing and patches nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rlmem.version import __version__

#: Public name to the module it lives in.
_EXPORTS = {
    "Axis": "rlmem.core.points",
    "Budget": "rlmem.core.plan",
    "Entry": "rlmem.core.ledger",
    "ExplainRequest": "rlmem.app.explain",
    "Finding": "rlmem.core.findings",
    "FitRequest": "rlmem.app.fit",
    "Ledger": "rlmem.core.ledger",
    "MeasureRequest": "rlmem.app.measure",
    "Plan": "rlmem.core.plan",
    "PlanRequest": "rlmem.app.plan",
    "Planner": "rlmem.planner",
    "RunSpec": "rlmem.core.spec",
    "explain": "rlmem.app.explain",
    "fit": "rlmem.app.fit",
    "guard": "rlmem.guards",
    "load": "rlmem.sources",
    "make_budget": "rlmem.budget",
    "max_buffer_size": "rlmem.app.max_buffer",
    "measure": "rlmem.app.measure",
    "parse_size": "rlmem.units",
    "parse_target": "rlmem.sources.target",
    "plan": "rlmem.app.plan",
    "plan_document": "rlmem.documents.plan",
    "snapshot": "rlmem.snapshots",
    "to_plain": "rlmem.documents.contract",
}
__all__ = ["__version__", *_EXPORTS]  # noqa: PLE0604  # names are strings; the linter does not follow the table


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'rlmem' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted(__all__)
