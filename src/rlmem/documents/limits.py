"""What this process may use, as a document: ``rlmem.limits/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitPart:
    """One bound on the memory of a process."""

    kind: Annotated[str, Meta(description="a cgroup's, RLIMIT_AS, RLIMIT_DATA, available or physical memory")]
    limit_bytes: Size
    left_bytes: Annotated[Size, Meta(description="what a run may reach under it, beside what others hold")]
    used_bytes: Annotated[Size | None, Meta(description="what counts against it now")]
    detail: Annotated[str, Meta(description="where it was read")]
    decides: Annotated[bool, Meta(description="plans go by this one")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPart:
    """One GPU as its driver reports it."""

    name: str
    total_bytes: Size
    free_bytes: Size | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsDocument(Document):
    """Every memory limit on this process, its cores and GPUs. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.limits/1"
    TITLE: ClassVar[str] = "rlmem machines --here"

    cores: Annotated[int, Meta(description="that this process may use")]
    limits: tuple[LimitPart, ...]
    gpus: tuple[GpuPart, ...]
