"""Where points and profiles are sent: a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """A Ray cluster.

    Attributes:
        address: as Ray's own clients take it: host:port, ray://host:port, auto, local. None: ``RAY_ADDRESS``, else a cluster
            of this machine, else one that is started here and ends with the work.
    """

    address: str | None = None
