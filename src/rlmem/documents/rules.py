"""A rule and its manual page, as ``rlmem rule --json`` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

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
