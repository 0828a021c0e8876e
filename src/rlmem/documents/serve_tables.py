"""Tables that only ``rlmem serve`` gives out: ``rlmem.fields/1``, ``rlmem.zoo/1`` and ``rlmem.processes/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldPart:
    """One field of a run's description."""

    path: str
    kind: Annotated[str, Meta(description="what it takes: count, size, word, space, …")]
    doc: str
    choices: tuple[str, ...]
    minimum: int
    maximum: Annotated[int | None, Meta(description="null: no bound")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldsDocument(Document):
    """Every field of a run's description."""

    SCHEMA: ClassVar[str] = "rlmem.fields/1"
    TITLE: ClassVar[str] = "rlmem serve: /api/fields"

    fields: tuple[FieldPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooDocument(Document):
    """RL Zoo entries of the rl_zoo3 that is installed."""

    SCHEMA: ClassVar[str] = "rlmem.zoo/1"
    TITLE: ClassVar[str] = "rlmem serve: /api/zoo"

    entries: Annotated[tuple[str, ...], Meta(description="as 'rlmem plan' takes them: zoo:ALGO/ENV")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """A process that looks like training."""

    pid: int
    start: Annotated[int, Meta(description="clock ticks from boot to its start; a number that is used again differs")]
    command: str
    rss_bytes: Size
    threads: int
    why: Annotated[str, Meta(description="what it looks like training by")]
    can_name: Annotated[bool, Meta(description="whether the owners of its memory can be named")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessesDocument(Document):
    """Processes on this machine that look like training, the largest first. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.processes/1"
    TITLE: ClassVar[str] = "rlmem serve: /api/processes"

    processes: tuple[ProcessRow, ...]
