"""The ladder of ``python -m rlmem.swarm ladder`` as a document (``rlmem.swarm-ladder/1``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size

#: How the ladder is measured: agents in the network at once, at most, and the share of the windows that the autoencoder
#: learns from where nothing is stored whole; whole windows are all learnt from.
MOST_CHUNK, FEW_WINDOWS = 64, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderPointPart:
    """One point: a fresh process, and its plan."""

    agents: int
    status: str
    planned_bytes: Size
    peak_bytes: Size | None
    phase: Annotated[str | None, Meta(description="where the peak was: collect or update")]
    stored_bytes: Size | None
    seconds: Annotated[float | None, Meta(description="of the iteration: collection and update")]
    note: str
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderRowPart:
    """A version of the algorithm, with its points; what one number of agents cannot tell is null."""

    rung: str
    title: str
    variant: Annotated[str | None, Meta(description="what differs from the rung; null for the rung itself")]
    encoding: str
    ae_share: Annotated[float, Meta(description="share of the windows that the autoencoder learns from")]
    chunk: Annotated[int | None, Meta(description="agents in the network at once; null: all")]
    lossless: bool
    stored_per_agent_bytes: float | None
    planned_per_agent_bytes: float | None
    peak_per_agent_bytes: float | None
    seconds: Annotated[float | None, Meta(description="an iteration of the most agents")]
    error: Annotated[float | None, Meta(description="planned / measured - 1, the largest of its points")]
    points: tuple[LadderPointPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderDocument(Document):
    """Every version of the swarm's algorithm, measured in fresh processes beside its plan."""

    SCHEMA: ClassVar[str] = "rlmem.swarm-ladder/1"
    TITLE: ClassVar[str] = "python -m rlmem.swarm ladder"

    date: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    rows: tuple[LadderRowPart, ...]

    @property
    def is_ok(self) -> bool:
        """Whether every point ended well."""
        return all(point.status == "ok" for row in self.rows for point in row.points)
