"""Machines of the catalogue as a document: ``rlmem.machines/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRow:
    """One named machine."""

    name: str
    about: str
    ram_bytes: Annotated[Size | None, Meta(description="of a unified machine its one pool; null: a card alone")]
    vram_bytes: Annotated[Size | None, Meta(description="of each GPU; null: none of its own")]
    gpus: int
    unified: Annotated[bool, Meta(description="RAM and VRAM are one pool")]
    cores: int | None
    source: Annotated[str, Meta(description="where the sizes are from")]


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinesDocument(Document):
    """Machines that have a name, or one of them. Sizes are in bytes."""

    SCHEMA: ClassVar[str] = "rlmem.machines/1"
    TITLE: ClassVar[str] = "rlmem machines"

    machines: tuple[MachineRow, ...]
