"""Which two documents compare, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rlmem.app.compare import compare_sides, plan_side
from rlmem.documents.contract import Document
from rlmem.documents.kinds import kind_name
from rlmem.documents.plan import PlanDocument
from rlmem.documents.recorded import RecordedDocument
from rlmem.documents.recorded_comparison import compare_recorded
from rlmem.documents.sweep import SweepDocument
from rlmem.documents.sweep_comparison import compare_sweeps
from rlmem.errors import UsageError
from rlmem.report.view import View
from rlmem.report.views import view_of

ViewOf = Callable[[Any], View]


def compare_documents(sides: Sequence[Any], labels: Sequence[str]) -> tuple[Document, ViewOf]:
    """Two documents of one kind side by side as a document, and the function that views it."""
    left, right = sides
    if isinstance(left, PlanDocument) and isinstance(right, PlanDocument):
        return compare_sides(plan_side(left, labels[0]), plan_side(right, labels[1])), view_of
    if isinstance(left, SweepDocument) and isinstance(right, SweepDocument):
        return compare_sweeps((left, right), labels), view_of
    if isinstance(left, RecordedDocument) and isinstance(right, RecordedDocument):
        return compare_recorded((left, right), labels), view_of
    kinds = " and ".join(kind_name(side.SCHEMA) for side in sides)
    raise UsageError(f"{' and '.join(labels)} are {kinds}: only two plans, two sweeps or two recorded runs compare")
