"""A benchmark as a document: profiles of one run beside each other, each trained in a fresh process (``rlmem.bench/1``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.core.points import PredictedPeak, Status
from rlmem.documents.contract import Document
from rlmem.documents.parts import Size, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchTarget:
    """The run that was trained."""

    name: str
    about: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchPrediction:
    """What a plan says of the peak of RAM; all null where the profile was not planned."""

    low: Size | None = None
    expected: Size | None = None
    high: Size | None = None


def bench_prediction(predicted: PredictedPeak | None) -> BenchPrediction:
    """Return a prediction as benchmarks have it."""
    if predicted is None:
        return BenchPrediction()
    return BenchPrediction(low=predicted.low, expected=predicted.expected, high=predicted.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRow:
    """What a profile came to."""

    profile: str
    settings: Mapping[str, Any]
    status: Status
    steps: int | None
    steps_per_s: float | None
    mean_reward: float | None
    episodes: int | None
    reward_per_step: float | None
    image: str | None
    peak_bytes: Size | None
    predicted: Annotated[BenchPrediction, Meta(description="with a replay buffer as full as it got")]
    predicted_full: Annotated[BenchPrediction, Meta(description="with a full replay buffer")]
    verdict: Annotated[Verdict, Meta(description="of a full replay buffer")]
    wall_s: float
    note: str
    versions: Mapping[str, str]
    node: Annotated[str | None, Meta(description="of a cluster, that ran it")] = None

    @property
    def is_ok(self) -> bool:
        """Whether the profile was trained to its end."""
        return self.status == "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchDocument(Document):
    """Profiles of one run, each trained for some timesteps in a fresh process. Sizes are integers in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.bench/1"
    TITLE: ClassVar[str] = "rlmem bench"

    run: str | None
    target: BenchTarget
    timesteps: int
    env: Annotated[str | None, Meta(description="null: noise of the described shapes")]
    limit_bytes: Annotated[Size | None, Meta(description="what full buffers are judged against")]
    limit_source: str
    profiles: tuple[BenchRow, ...]

    @property
    def is_ok(self) -> bool:
        """Whether every profile was trained to its end."""
        return all(row.is_ok for row in self.profiles)
