"""A training of ``python -m rlmem.swarm train`` as a document (``rlmem.swarm-train/1``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import PeakPart, Size, Verdict

TrainStatus: TypeAlias = Literal["done", "interrupted", "not-finite", "out-of-memory", "nothing-to-do"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmSettingsPart:
    """What a swarm was trained with."""

    agents: int
    steps: int
    iterations: int
    epochs: int
    minibatches: Annotated[int, Meta(description="optimizer steps an epoch")]
    chunk: Annotated[int, Meta(description="agents whose samples are in the network at once")]
    rung: str
    history: str
    encoding: str
    imu: str
    compute: str
    ae_share: Annotated[float, Meta(description="share of the windows that the autoencoder learns from")]
    learning_rate: float
    seed: int
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmPlanPart:
    """What the training was planned to take."""

    device: Annotated[str, Meta(description="whose memory decides: ram or vram")]
    agents: int
    stored_bytes: Size
    stored_per_agent_bytes: float
    chunk: Annotated[int | None, Meta(description="null: all agents at once")]
    chunk_why: str
    tensor_bytes: Size
    limit_source: str
    verdict: Verdict
    text: str
    peaks: tuple[PeakPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationPart:
    """One iteration; a number that is not finite is null."""

    iteration: int
    reward: Annotated[float | None, Meta(description="the mean of an agent's step")]
    policy_loss: float | None
    value_loss: float | None
    ae_loss: Annotated[float | None, Meta(description="of the autoencoder")]
    seconds: float | None
    agent_steps_per_s: float | None
    phases: Annotated[Mapping[str, float | None], Meta(description="seconds by phase")]
    stored_bytes: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedPeakPart:
    """The most that was measured, and how, beside what was planned."""

    nbytes: Size | None
    how: str
    planned_bytes: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainDocument(Document):
    """A training of a swarm. Where nothing was left to do it has the settings and the iterations alone."""

    SCHEMA: ClassVar[str] = "rlmem.swarm-train/1"
    TITLE: ClassVar[str] = "python -m rlmem.swarm train"

    status: TrainStatus
    error: str | None
    settings: SwarmSettingsPart
    plan: SwarmPlanPart | None = None
    resumed_at: Annotated[int, Meta(description="iterations that were done before")] = 0
    iterations: tuple[IterationPart, ...]
    seconds: float | None = None
    agent_steps_per_s: float | None = None
    peak: TrainedPeakPart | None = None
    stored_bytes: Size | None = None
    checkpoint: Annotated[str | None, Meta(description="the file that the run is kept in")] = None
    curve: str | None = None
    log: str | None = None
