"""What lint found, and what it knows from before, as documents: ``rlmem.lint/1`` and ``rlmem.lint-baseline/1``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

from msgspec import Meta

from rlmem.core.edits import SAFETIES
from rlmem.documents.contract import Document
from rlmem.documents.parts import Severity

if TYPE_CHECKING:
    Safety: TypeAlias = str
else:
    from typing import Literal

    Safety = Literal[SAFETIES]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPart:
    """A piece of a file that a fix replaces by a text; lines and columns count from 1."""

    line: int
    column: int
    end_line: int
    end_column: int
    cell: Annotated[int | None, Meta(description="of a notebook, whose lines count from the top of the cell")]
    text: Annotated[str, Meta(description="what stands there afterwards")]


@dataclass(frozen=True, slots=True, kw_only=True)
class FixPart:
    """Edits that belong together: all of them or none."""

    title: str
    safety: Annotated[Safety, Meta(description="unsafe: the program may behave differently")]
    edits: tuple[EditPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LintFindingPart:
    """What one rule says of a piece of a file; lines and columns count from 1."""

    path: Annotated[str, Meta(description="from the folder that rlmem was called in")]
    line: int
    column: int
    end_line: int
    end_column: int
    cell: Annotated[int | None, Meta(description="of a notebook, whose lines count from the top of the cell")]
    code: str
    name: str
    severity: Severity
    title: str
    remedy: str | None
    saves_bytes: Annotated[int | None, Meta(description="what the remedy saves at the peak; null: not known")]
    costs_bytes: Annotated[int | None, Meta(description="what the mistake costs as things are")]
    costs_per: Annotated[str, Meta(description="each one costs as much; empty: in all")]
    source: Annotated[str, Meta(description="the line of the script")]
    fingerprint: Annotated[str, Meta(description="what baselines know the finding by")]
    fix: FixPart | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StalePart:
    """An entry of the baseline that nothing matches any more."""

    path: str
    code: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPart:
    """The findings of one file whose fixes were made."""

    path: str
    codes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemPart:
    """A file or a part of one that could not be analysed."""

    path: str
    text: str
    failed: Annotated[bool, Meta(description="false: it was left out on purpose")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LintDocument(Document):
    """Findings of ``rlmem lint`` in the order of their files, and what else came of those."""

    SCHEMA: ClassVar[str] = "rlmem.lint/1"
    TITLE: ClassVar[str] = "What 'rlmem lint' found"

    files: Annotated[int, Meta(description="how many were linted")]
    findings: tuple[LintFindingPart, ...]
    hidden: Annotated[int, Meta(description="findings below the severity asked for")]
    silenced: Annotated[int, Meta(description="findings silenced by comments")]
    known: Annotated[int, Meta(description="findings in the baseline")]
    stale: tuple[StalePart, ...]
    fixed: tuple[FixedPart, ...]
    problems: tuple[ProblemPart, ...]

    @property
    def failed(self) -> bool:
        """Return whether some file could not be analysed."""
        return any(problem.failed for problem in self.problems)

    @property
    def is_clean(self) -> bool:
        """Return whether there is nothing to change."""
        return not self.findings


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchesPart:
    """Fixes as patches, and what lint found; nothing was written."""

    texts: tuple[str, ...]
    document: LintDocument

    @property
    def failed(self) -> bool:
        """Return whether some file could not be analysed."""
        return self.document.failed

    @property
    def is_clean(self) -> bool:
        """Return whether there is nothing to change."""
        return not self.texts


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPart:
    """A finding of a baseline: found again, it is not shown."""

    path: Annotated[str, Meta(description="from the folder of pyproject.toml, else the current one")]
    line: Annotated[int | None, Meta(description="where it was; lines that moved are known all the same")] = None
    code: str
    fingerprint: Annotated[str, Meta(description="of the line's text, and how often that stood above")]


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineDocument(Document):
    """Findings that were there when lint came, so that only new ones count."""

    SCHEMA: ClassVar[str] = "rlmem.lint-baseline/1"
    TITLE: ClassVar[str] = "Findings that 'rlmem lint' knows"

    findings: tuple[KnownPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBaselinePart:
    """A baseline that knows everything that was found, and the file it is for; ``failed``: some file could not be analysed."""

    path: str
    baseline: BaselineDocument
    failed: bool
    is_clean: ClassVar[bool] = True


LintResult: TypeAlias = LintDocument | PatchesPart | NewBaselinePart
