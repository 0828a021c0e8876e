"""Rules and their manual pages as a document: ``rlmem.rules/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePart:
    """One rule of the table."""

    code: str
    name: str
    family: str
    severity: Severity
    subjects: Annotated[tuple[str, ...], Meta(description="what it looks at: script, plan, live")]
    page: Annotated[str, Meta(description="its manual page")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesDocument(Document):
    """Every rule with its manual page, or one."""

    SCHEMA: ClassVar[str] = "rlmem.rules/1"
    TITLE: ClassVar[str] = "rlmem rule"

    rules: tuple[RulePart, ...]
