"""Two runs side by side: plans, measurements, recorded runs and running processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rlmem.app.explain import ExplainRequest, explain
from rlmem.app.runs import stored_document
from rlmem.app.subjects import open_subject
from rlmem.core.fields import flatten
from rlmem.core.plan import Budget
from rlmem.core.points import Point, values_text
from rlmem.core.progress import ShowProgress
from rlmem.core.target import Target
from rlmem.documents.comparison import Side, SidePart, compare_sides
from rlmem.documents.contract import Document
from rlmem.documents.explanation import ExplanationDocument
from rlmem.documents.kinds import kind_name
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.documents.recorded import RecordedDocument, peak_sentence
from rlmem.documents.recorded_comparison import compare_recorded
from rlmem.documents.sweep import SweepDocument
from rlmem.documents.sweep_comparison import compare_sweeps
from rlmem.errors import RlmemError, UsageError
from rlmem.process.processes import living
from rlmem.runner.store import open_store
from rlmem.units import format_size

#: What names a running process where its number alone could be the id of a stored run.
PROCESS = "pid:"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """Two runs to compare, as they were named.

    Attributes:
        left: a target to plan, a stored run, or a process: ``4242``, ``pid:4242``.
        right: the same.
        labels: what to call them.
        budget: what those that are planned may use.
    """

    left: Target
    right: Target
    labels: tuple[str, str]
    budget: Budget


def compare(request: CompareRequest, progress: ShowProgress) -> Document:
    """Return two runs side by side.

    Args:
        request: the two, and the limits of those that are planned.
        progress: shows what is being done.

    Returns:
        Two measurements point by point, two recorded runs by owner and phase, everything else line by line.

    Raises:
        UsageError: a side cannot be read, or has nothing to compare.
    """
    return compare_documents(
        [_document(side, request, progress) for side in (request.left, request.right)], request.labels
    )


def compare_documents(documents: Sequence[Document], labels: Sequence[str]) -> Document:
    """Return two documents side by side; see :func:`compare`."""
    left, right = documents
    if isinstance(left, SweepDocument) and isinstance(right, SweepDocument):
        return compare_sweeps((left, right), labels)
    if isinstance(left, RecordedDocument) and isinstance(right, RecordedDocument):
        return compare_recorded((left, right), labels)
    plans = [document for document in documents if isinstance(document, PlanDocument)]
    plan = plans[0] if plans else None
    return compare_sides(_side(left, labels[0], plan), _side(right, labels[1], plan))


def _document(target: Target, request: CompareRequest, progress: ShowProgress) -> Document:
    """Return one side: a process as it is now, a stored run as it was, a target planned now."""
    pid = _process(target)
    if target.sets and (pid is not None or target.kind == "run"):
        what = "a stored run" if pid is None else "a process"
        raise UsageError(f"{target.text} is {what}: --set cannot change it")
    if pid is not None:
        with progress(f"looking at process {pid}"):
            return explain(ExplainRequest(pid=pid, advice=False))
    if target.kind == "run":
        return _stored(target.text)
    budget = request.budget
    asked = target if target.is_executable else replace(target, args=())
    return plan_document(open_subject(asked, budget, progress=progress, gpu=bool(budget.vram_bytes)).plan)


def _process(target: Target) -> int | None:
    """Return the process that a word names; ``None`` for everything else.

    Raises:
        UsageError: no number follows ``pid:``, or the number is a stored run and a process.
    """
    number = target.text.removeprefix(PROCESS)
    if target.text.startswith(PROCESS):
        if not number.isdecimal():
            raise UsageError(f"{target.text}: write the number of a process, such as {PROCESS}4242")
        return int(number)
    if not number.isdecimal() or not _lives(int(number)):
        return None
    if target.kind == "run" and _is_stored(number):
        raise UsageError(
            f"{number} names a stored run and a process: write {PROCESS}{number}, or more letters of the run"
        )
    return int(number)


def _lives(pid: int) -> bool:
    try:
        living(pid)
    except RlmemError:
        return False
    return True


def _is_stored(name: str) -> bool:
    try:
        with open_store() as store:
            store.find(name)
    except RlmemError:
        return False
    return True


def _stored(name: str) -> Document:
    with open_store() as store:
        return stored_document(store, store.find(name))


def _side(document: Document, label: str, plan: PlanDocument | None) -> Side:
    """Return a document as a side; ``plan`` is what the other side may be."""
    match document:
        case PlanDocument():
            about = SidePart(label=label, name=document.target.name, verdict=document.verdict, summary=document.summary)
            return Side(about=about, settings=document.target.spec, ledger=document.ledger())
        case ExplanationDocument():
            return _moment(document, label)
        case SweepDocument():
            return _point(document, label, plan)
        case RecordedDocument():
            return _recorded(document, label)
    raise UsageError(
        f"{label} is a {kind_name(document.SCHEMA)}; give plans, measurements, recorded runs or processes to compare"
    )


def _measured(label: str, name: str, *summary: str) -> SidePart:
    return SidePart(label=label, name=name, summary=summary, source="measured")


def _moment(document: ExplanationDocument, label: str) -> Side:
    """Return what a process holds now."""
    ledger, top = document.ledger(), document.top
    sizes = [f"{format_size(document.pss_bytes)} RAM" if document.pss_bytes is not None else ""]
    sizes += [f"{format_size(ledger.only(device='vram').nbytes)} VRAM" if "vram" in ledger.devices else ""]
    held = ", ".join(size for size in sizes if size)
    phase = f" in {top.phase}" if top.phase else "; its phase is unknown, so it is compared as in collect"
    return Side(
        about=_measured(label, top.command, f"process {top.pid} holds {held or 'an unknown size'} now{phase}"),
        ledger=ledger,
        is_moment=True,
    )


def _point(document: SweepDocument, label: str, plan: PlanDocument | None) -> Side:
    """Return the point of a sweep that is the run of the plan; without a plan the largest one."""
    points = [point for point in document.points if point.peak_bytes is not None]
    if plan is not None:
        points = [point for point in points if _is_of(point, plan)]
    if not points:
        which = " at the values of the plan" if plan is not None else ""
        raise UsageError(f"{label}: no point has a measured peak{which}; 'rlmem show {document.run}' lists them")
    point = max(points, key=lambda point: point.peak_bytes or 0)
    values = f" at {values_text(point.values)}" if point.values else ""
    text = f"measured {format_size(point.peak_bytes or 0)}{values}: {point.status}"
    return Side(about=_measured(label, document.target, text), ledger=point.ledger())


def _is_of(point: Point, plan: PlanDocument) -> bool:
    spec = flatten(plan.target.spec)
    return all(spec.get(name) == value for name, value in point.values.items())


def _recorded(document: RecordedDocument, label: str) -> Side:
    """Return what the owners of a recorded run held at its peak."""
    if not document.peak.nbytes:
        raise UsageError(f"{label}: {peak_sentence(document)}")
    return Side(about=_measured(label, document.target, peak_sentence(document)), ledger=document.ledger())
