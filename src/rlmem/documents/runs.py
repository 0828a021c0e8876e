"""The list of stored runs as a document: ``rlmem.runs/1``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta

from rlmem.documents.contract import Document
from rlmem.documents.parts import Size

#: Commands whose results are kept.
RUN_KINDS = ("measure", "plan", "bench", "run")
if TYPE_CHECKING:  # to the type checker it is text; a reader of JSON takes only the words of the table
    RunKind: TypeAlias = str
else:
    RunKind = Literal[RUN_KINDS]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A stored run in short."""

    id: str
    kind: RunKind
    target: str
    command: tuple[str, ...]
    started: str
    finished: Annotated[str | None, Meta(description="null while it is under way")]
    status: str
    points: Annotated[int, Meta(description="measured processes that it has")]
    peak_bytes: Annotated[
        Size | None, Meta(description="the largest that ended well; of a plan what it expects of RAM")
    ]
    machine: Mapping[str, Any]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsDocument(Document):
    """Results that are kept, the newest first."""

    SCHEMA: ClassVar[str] = "rlmem.runs/1"
    TITLE: ClassVar[str] = "rlmem runs"

    store: Annotated[str, Meta(description="the file that they are kept in")]
    runs: tuple[RunRow, ...]
    total: Annotated[int | None, Meta(description="how many the store has in all; null: an older version wrote it")] = (
        None
    )
