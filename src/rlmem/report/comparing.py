"""Which two documents compare, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlmem.app.compare import compare_sides, plan_side
from rlmem.documents.contract import Document
from rlmem.documents.kinds import kind_name
from rlmem.documents.plan import PlanDocument
from rlmem.documents.sweep import SweepDocument
from rlmem.documents.sweep_comparison import compare_sweeps
from rlmem.errors import UsageError
from rlmem.report.compare import compare_view
from rlmem.report.compare_recorded import compare_recorded, compare_recorded_view
from rlmem.report.compare_sweeps import compare_sweeps_view
from rlmem.report.recorded import RECORDED_SCHEMA
from rlmem.report.view import View

Compare = Callable[[Sequence[Mapping[str, Any]], Sequence[str]], dict[str, Any]]
ViewOf = Callable[[Any], View]
_WAYS: dict[str, tuple[Compare, ViewOf]] = {
    RECORDED_SCHEMA: (compare_recorded, compare_recorded_view),
}


def compare_documents(sides: Sequence[Any], labels: Sequence[str]) -> tuple[Any, ViewOf]:
    """Two documents of one kind side by side as a document, and the function that views it."""
    left, right = sides
    if isinstance(left, PlanDocument) and isinstance(right, PlanDocument):
        return compare_sides(plan_side(left, labels[0]), plan_side(right, labels[1])), compare_view
    if isinstance(left, SweepDocument) and isinstance(right, SweepDocument):
        return compare_sweeps((left, right), labels), compare_sweeps_view
    schemas = [side.SCHEMA if isinstance(side, Document) else str(side["schema"]) for side in sides]
    if schemas[0] != schemas[1] or schemas[0] not in _WAYS:
        kinds = " and ".join(kind_name(schema) for schema in schemas)
        raise UsageError(f"{' and '.join(labels)} are {kinds}: only two plans, two sweeps or two recorded runs compare")
    compare, view = _WAYS[schemas[0]]
    return compare(sides, labels), view
