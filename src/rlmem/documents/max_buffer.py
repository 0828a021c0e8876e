"""The largest replay buffer of an environment and an algorithm, as a document: ``rlmem.max-buffer/1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxBufferDocument(Document):
    """The largest replay buffer with which training fits, upper bound and margin included. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.max-buffer/1"
    TITLE: ClassVar[str] = "rlmem max-buffer"

    env: str
    algorithm: str
    n_envs: Annotated[int, Meta(description="environments stepped together")]
    ram_bytes: Size
    margin: Annotated[float, Meta(description="the share of RAM that stays free")]
    limit_bytes: Annotated[Size, Meta(description="RAM less the margin")]
    buffer_size: Annotated[int, Meta(description="transitions")]
    expected_bytes: Annotated[Size | None, Meta(description="what the run needs with that buffer")]
    high_bytes: Annotated[Size | None, Meta(description="at most")]
    compact_buffer_size: Annotated[
        int | None, Meta(description="with CompactReplayBuffer of rlmem.sb3; null: no more, or the run has one")
    ]
    spec: Annotated[Mapping[str, Any], Meta(description="the run, with its framework's defaults")]
    limit_source: Annotated[str, Meta(description="where the RAM comes from; empty where a file does not say")] = ""
