"""The formulas of a component as a document: ``rlmem.formulas/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.plan import EntryPart


@dataclass(frozen=True, slots=True, kw_only=True)
class FormulasDocument(Document):
    """The entries of a plan that belong to a component or a group: why they are as large as they are."""

    SCHEMA: ClassVar[str] = "rlmem.formulas/1"
    TITLE: ClassVar[str] = "rlmem plan --why"

    component: Annotated[str, Meta(description="the component or group that was asked about")]
    entries: tuple[EntryPart, ...]
