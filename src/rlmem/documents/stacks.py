"""What other training stacks would hold of a rollout's observations, as a document (``rlmem.stacks/1``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPart:
    """One stack, by a reading of its sources."""

    name: str
    version: str
    commit: str
    factor: Annotated[int, Meta(description="whole rollouts of observations held at once")]
    at_least: Annotated[bool, Meta(description="more than that under some settings")]
    nbytes: Size
    why: str
    source: Annotated[str, Meta(description="the file that says so")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRunPart:
    """The run that was asked about, as it is described or with its stream kept once."""

    name: str
    nbytes: Size
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksDocument(Document):
    """What other training stacks would hold of the observations of a rollout, beside what the run holds."""

    SCHEMA: ClassVar[str] = "rlmem.stacks/1"
    TITLE: ClassVar[str] = "rlmem plan --stacks"

    target: str
    observations_bytes: Annotated[Size, Meta(description="every observation whole, once")]
    formula: str
    basis: str
    stacks: tuple[StackPart, ...]
    runs: tuple[OwnRunPart, ...]
