"""The smallest change that makes a run fit: looked for, written down, measured before and after, applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rlmem.app.step_text import write
from rlmem.app.steps import plain_changes, remedy_part, single_remedy_part, step_diff, step_part
from rlmem.app.subjects import constants_for, prepare_job
from rlmem.budget import cap_bytes, make_budget, read_cap
from rlmem.core.fields import find_field
from rlmem.core.plan import Budget, Plan
from rlmem.core.points import Point, PointLimits
from rlmem.core.progress import ShowProgress, show_nothing
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.documents.fit import (
    AppliedPart,
    CatalogueMachinePart,
    FitDocument,
    FitTargetPart,
    MachineFor,
    MeasuredPart,
    RemedyPart,
    VerifiedPart,
    WritePart,
    WrittenFilePart,
    judged_part,
)
from rlmem.documents.parts import machine_part, part_of
from rlmem.errors import AnalysisError, SpecError, UsageError
from rlmem.planner import ClosedForm
from rlmem.remedies.base import KINDS, Constraints, Fit, changes_of, slowdown_of
from rlmem.remedies.machine import would_do
from rlmem.remedies.search import Search
from rlmem.sources import read_description
from rlmem.trace.applying import write_edited
from rlmem.trace.drafts import Draft
from rlmem.trace.fitted import Fitted, Job
from rlmem.trace.fitting import fit_target
from rlmem.trace.verifying import Verified, verify_described, verify_run

#: Seconds a measurement before or after the steps may take.
VERIFY_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """A run to make fit, and the changes that are allowed.

    Attributes:
        target: a preset, a run file, a script, a factory or an RL Zoo entry.
        budget: RAM, VRAM and cores that the run may use; ``None`` is what this process may use.
        keep: fields to leave alone, such as ``buffer_size``.
        lossless: allow only steps under which the learner sees the same numbers.
        max_slowdown: the most that training may slow down, such as 1.2; steps of unknown cost are left out.
        apply: write the edited script; the old one is kept beside it.
        verify: measure the run before and after its steps, in fresh processes.
        timeout_s: seconds a dry run may take.
        cap: memory a dry run may take before it is ended, in bytes or as text such as ``8GB``; ``None`` is most of what is
            left here now.
    """

    target: Target
    budget: Budget | None = None
    keep: tuple[str, ...] = ()
    lossless: bool = False
    max_slowdown: float | None = None
    apply: bool = False
    verify: bool = False
    timeout_s: float | None = None
    cap: int | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FitAnswer:
    """An answer as a document, and its steps as a page shows them: each with the peaks it leads to and its change."""

    document: FitDocument
    steps: tuple[RemedyPart, ...]


def fit_planned(subject: Subject) -> FitAnswer:
    """Return the smallest change that makes a planned run fit; nothing is run for it.

    Raises:
        AnalysisError: the run is only known as it is.
    """
    if not subject.is_changeable:
        raise AnalysisError("this run could only be planned as it is; 'rlmem fit' edits its script")
    fitted = _fit_subject(subject)
    steps = tuple(remedy_part(step, fits=False, diff=step_diff(step)) for step in fitted.fit.steps)
    return FitAnswer(document=fit_document(fitted), steps=steps)


def fit(
    request: FitRequest,
    *,
    progress: ShowProgress = show_nothing,
    on_write: Callable[[Path, Path], object] = lambda path, backup: None,
) -> FitDocument:
    """Look for the smallest change that makes a run fit: lossless steps first, then those that cost speed, then learning.

    Args:
        request: the run, its limits and what may be changed.
        progress: shows what is being done; silent by default.
        on_write: called with each file that was written and the backup beside it.

    Returns:
        The steps that make it fit or come closest, with the change as text.

    Raises:
        UsageError: the target cannot be read or run, or the request asks for what it has not.
        AnalysisError: a dry run stopped before anything was known.
    """
    target, cap, constraints = request.target, read_cap(request.cap), _constraints(request)
    budget = request.budget or make_budget()
    job = None
    if target.is_executable:
        gpu = bool(budget.vram_bytes)
        job = prepare_job(
            target, budget, progress=progress, timeout_s=request.timeout_s, cap_bytes=cap_bytes(cap), gpu=gpu
        )
        fitted = fit_target(job, constraints)
    else:
        _refuse_options(request)
        fitted = _fit_description(target, budget, constraints)
    if request.apply and (target.kind != "script" or fitted.written.kind == "python"):
        raise UsageError(f"{target.text}: --apply writes scripts; this one is not one that can be edited")
    verified = _verified(request, job, fitted, progress) if request.verify and fitted.fit.steps else None
    fits = fitted.fit.status != "no" and (verified is None or verified.took_effect)
    applied = _applied(fitted.draft, on_write) if request.apply and fits and fitted.draft is not None else None
    return fit_document(fitted, verified, applied)


def _constraints(request: FitRequest) -> Constraints:
    names = [name.strip() for item in request.keep for name in item.split(",") if name.strip()]
    try:
        paths = frozenset(find_field(name).path for name in names)
    except SpecError as error:
        raise error.located("--keep") from None
    return Constraints(keep=paths, kinds=KINDS[:1] if request.lossless else KINDS, max_slowdown=request.max_slowdown)


def _refuse_options(request: FitRequest) -> None:
    """Refuse what only targets that are run have."""
    for value, option in (
        (request.target.args, "script arguments"),
        (request.timeout_s, "--timeout"),
        (request.cap, "--cap"),
        (request.apply, "--apply"),
    ):
        if value:
            raise UsageError(f"{request.target.text}: {option}: only for targets that are run, such as train.py")


def _fit_description(target: Target, budget: Budget, constraints: Constraints) -> Fitted:
    form = ClosedForm(constants_for(target.python))
    return _fit_subject(form.subject(read_description(target), budget), constraints)


def _fit_subject(subject: Subject, constraints: Constraints | None = None) -> Fitted:
    answer = Search(subject, constraints).fit()
    return Fitted(fit=answer, written=write(subject, answer.steps))


def _verified(request: FitRequest, job: Job | None, fitted: Fitted, progress: ShowProgress) -> Verified:
    """Measure under the budget itself, as far as this machine has it."""
    target = request.target
    caps = [size for size in (cap_bytes(None), fitted.fit.start.plan.budget.ram_bytes) if size is not None]
    limits = PointLimits(cap_bytes=min(caps, default=None), time_limit_s=VERIFY_S)
    if job is None:
        return verify_described(target, fitted, limits, progress)
    return verify_run(replace(target, args=job.target.args), job.target, fitted, limits, progress)


def _applied(draft: Draft, on_write: Callable[[Path, Path], object]) -> AppliedPart | None:
    files = []
    for path, (before, after) in draft.files().items():
        backup = write_edited(path, before, after)
        on_write(path, backup)
        files.append(WrittenFilePart(path=str(path), backup=str(backup)))
    return AppliedPart(path=files[0].path, backup=files[0].backup, files=tuple(files)) if files else None


def fit_document(fitted: Fitted, verified: Verified | None = None, applied: AppliedPart | None = None) -> FitDocument:
    """Return an answer as the document that is printed, stored and served."""
    answer = fitted.fit
    start, end = answer.start.plan, answer.end.plan
    slowdown = slowdown_of(answer.steps)
    return FitDocument(
        target=FitTargetPart(name=start.spec.name, about=start.spec.get("about"), method=start.method),
        machine=machine_part(start.budget),
        status=answer.status,
        before=judged_part(start),
        after=judged_part(end),
        steps=tuple(step_part(step) for step in answer.steps),
        changes=plain_changes(changes_of(answer.steps)),
        slowdown=None if slowdown is None else round(slowdown, 3),
        left_over=answer.left_over if answer.status in ("expected", "no") else {},
        machines=_machines(answer),
        alone=tuple(single_remedy_part(item) for item in answer.alone),
        write=WritePart(kind=fitted.written.kind, text=fitted.written.text or None, by_hand=fitted.written.by_hand),
        applied=applied,
        verified=_verified_part(verified, answer) if verified else None,
        notes=start.notes,
    )


def _machines(answer: Fit) -> dict[MachineFor, CatalogueMachinePart | None]:
    """The smallest machines of the catalogue: for the run as it is, and with every step that leaves learning alone."""
    if answer.status in ("already", "unknown", "grows"):
        return {}
    machines: dict[MachineFor, CatalogueMachinePart | None] = {"as_it_is": _machine(answer.start.plan)}
    if answer.mild:
        machines["without_changing_learning"] = _machine(answer.mild[-1].after.plan)
    return machines


def _machine(plan: Plan) -> CatalogueMachinePart | None:
    machine = would_do(plan)
    return part_of(CatalogueMachinePart, machine) if machine else None


def _verified_part(verified: Verified, answer: Fit) -> VerifiedPart:
    before, after = answer.start.plan.top("ram"), answer.end.plan.top("ram")
    return VerifiedPart(
        cap_bytes=verified.cap_bytes,
        before=_measured_part(verified.before),
        after=_measured_part(verified.after),
        predicted_saving_bytes=before.expected_bytes - after.expected_bytes if before and after else None,
        real_saving_bytes=verified.saved_bytes,
        took_effect=verified.took_effect,
        notes=verified.notes,
    )


def _measured_part(point: Point | None) -> MeasuredPart | None:
    return part_of(MeasuredPart, point) if point else None
