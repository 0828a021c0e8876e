"""Ray, as it is: plans as placement groups and actor options, sweeps as tasks, trials that get what they need.

``from rlmem.ray import placement_group_for, resources_for, trainable_with_memory``. Names are loaded on first use; importing
this module imports no Ray.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: Public name to the module that holds it.
_PLACES = {
    "placement_group_for": "rlmem.ray.placement",
    "resources_for": "rlmem.ray.placement",
    "trainable_with_memory": "rlmem.ray.trials",
    "trial_outcome": "rlmem.ray.trials",
}
__all__ = ["placement_group_for", "resources_for", "trainable_with_memory", "trial_outcome"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_PLACES[name]), name)
