"""A swarm of drones that learns: a million agents where whole windows would need terabytes.

``python -m rlmem.swarm train`` trains one. Everything here is loaded when it is first used; torch is needed by what runs,
not by what plans.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name to the module it lives in.
_EXPORTS = {
    "Drones": "rlmem.swarm.physics",
    "RUNGS": "rlmem.swarm.settings",
    "Rung": "rlmem.swarm.settings",
    "Settings": "rlmem.swarm.settings",
    "SwarmRun": "rlmem.swarm.run",
}
__all__ = [*_EXPORTS]  # noqa: PLE0604  # names are strings; the linter does not follow the table


def __getattr__(name: str) -> Any:
    """Load a public name on first use."""
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'rlmem.swarm' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Public names, loaded or not."""
    return sorted(__all__)
