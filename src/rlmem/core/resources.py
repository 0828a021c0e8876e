"""What can be short on a node of a cluster, by name."""

from __future__ import annotations

#: In the order in which people ask. ``memory`` is what Ray was told to admit; custom resources come after.
RESOURCES = ("ram", "vram", "store", "memory", "cpus")
#: Before the name of a custom resource, where it stands beside those.
CUSTOM = "resource "


def rank(resource: str) -> int:
    """Where a resource stands in that order."""
    return RESOURCES.index(resource) if resource in RESOURCES else len(RESOURCES)
