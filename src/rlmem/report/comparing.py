"""Which two documents compare, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlmem.documents.sweep import SweepDocument
from rlmem.errors import UsageError
from rlmem.report.compare import compare_plan_documents, compare_view
from rlmem.report.compare_recorded import compare_recorded, compare_recorded_view
from rlmem.report.document import PLAN_SCHEMA
from rlmem.report.recorded import RECORDED_SCHEMA
from rlmem.report.sweep import compare_plain_sweeps, compare_plain_sweeps_view
from rlmem.report.view import View

Compare = Callable[[Sequence[Mapping[str, Any]], Sequence[str]], dict[str, Any]]
ViewOf = Callable[[Any], View]
_WAYS: dict[str, tuple[Compare, ViewOf]] = {
    PLAN_SCHEMA: (compare_plan_documents, compare_view),
    SweepDocument.SCHEMA: (compare_plain_sweeps, compare_plain_sweeps_view),
    RECORDED_SCHEMA: (compare_recorded, compare_recorded_view),
}


def compare_documents(sides: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> tuple[dict[str, Any], ViewOf]:
    """Two documents of one kind side by side as a document, and the function that views it."""
    left, right = (str(side["schema"]) for side in sides)
    if left != right or left not in _WAYS:
        kinds = " and ".join(schema.removeprefix("rlmem.").partition("/")[0] for schema in (left, right))
        raise UsageError(f"{' and '.join(labels)} are {kinds}: only two plans, two sweeps or two recorded runs compare")
    compare, view = _WAYS[left]
    return compare(sides, labels), view
