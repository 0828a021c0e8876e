"""Runs to plan: read from a description or tried a little, with what the rules say of them and changes as text."""

from __future__ import annotations

# What runs a target is imported where something is run: a description is planned in half the time without it.
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlmem import rules
from rlmem.budget import cap_bytes
from rlmem.core.plan import Budget
from rlmem.core.progress import ShowProgress
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.errors import AnalysisError, SpecError, UsageError
from rlmem.frameworks import resolve
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.process.interpreters import named_python
from rlmem.sources import read_description

if TYPE_CHECKING:
    from rlmem.trace.fitted import Job

#: What is said of a run that was tried and then changed.
MOVED = "changed after its dry run: the closed form of the changed run, moved by what the dry run saw beyond the closed form"


def open_subject(
    target: Target,
    budget: Budget,
    *,
    progress: ShowProgress,
    timeout_s: float | None = None,
    cap: int | str | None = None,
    gpu: bool = False,
) -> Subject:
    """Read a description, or make a dry run of what can be run, and plan it; findings are left to :func:`with_findings`.

    Args:
        target: what ``rlmem plan`` takes.
        budget: what there is; :meth:`Subject.under` plans the run for other limits.
        progress: shows what is being done.
        timeout_s: seconds a dry run may take.
        cap: memory a dry run may take, in bytes or as text.
        gpu: whether there is a GPU, which a learner that chooses its device itself will take.

    Raises:
        UsageError: the target cannot be read or run, or options of dry runs are given for a description.
        AnalysisError: a dry run stopped before anything was known.
    """
    if target.is_executable:
        job = prepare_job(target, budget, progress=progress, timeout_s=timeout_s, cap_bytes=cap_bytes(cap), gpu=gpu)
        from rlmem.trace.plan import plan_dry_run

        return plan_dry_run(job.run(job.target, f"dry run of {job.target.name}"), budget, job.form)
    refuse_options(target, (target.args, "script arguments"), (timeout_s, "--timeout"), (cap, "--cap"))
    spec = find_run(target, progress)
    return ClosedForm(constants_for(target.python)).subject(spec, budget)


def prepare_job(
    target: Target, budget: Budget, *, progress: ShowProgress, timeout_s: float | None, cap_bytes: int | None, gpu: bool
) -> Job:
    """Return how a script, a factory or an RL Zoo entry is run; arguments are those of :func:`open_subject`."""
    from rlmem.trace import fitted
    from rlmem.trace.changes import prepare_run

    runnable, changes, device = prepare_run(target)
    return fitted.Job(
        budget=budget,
        form=ClosedForm(read_calibration(runnable.python)),
        target=runnable,
        changes=changes,
        device=device or ("cuda" if gpu else None),
        cap_bytes=cap_bytes,
        time_s=timeout_s,
        progress=progress,
    )


def open_description(target: Target, progress: ShowProgress) -> RunSpec:
    """Return the description of a run; of a script the one that its dry run found. Errors are those of :func:`open_subject`."""
    if not target.is_executable:
        refuse_options(target, (target.args, "script arguments"))
        return find_run(target, progress)
    return changeable(open_subject(target, Budget(name="any machine"), progress=progress), target).asked


def find_run(target: Target, progress: ShowProgress) -> RunSpec:
    """The run that a target describes: a preset, a run file, or an RLlib configuration, which its own interpreter reads."""
    if target.kind != "rllib":
        return read_description(target)
    from rlmem.trace.rllib import describe_config

    with progress(f"reading {target.text}"):
        return describe_config(target)[0]


def refuse_options(target: Target, *options: tuple[object, str]) -> None:
    """Refuse options that only a dry run has: pairs of what was given and its name."""
    for given, option in options:
        if given:
            raise UsageError(f"{target.text}: {option} are for targets that are run, such as train.py")


def changeable(subject: Subject, target: Target) -> Subject:
    """A run that can be planned changed; an error for a loop of its own, which has no description."""
    if not subject.is_changeable:
        raise AnalysisError(
            f"{target.text}: a loop of its own has no description that could be changed; 'rlmem plan' and 'rlmem fit' run it, "
            "and 'rlmem measure --vary' measures other values"
        )
    return subject


def constants_for(python: str | None) -> Constants:
    """The constants of an environment: its own interpreter's if named, else the one rlmem runs in."""
    return read_calibration() if python is None else read_calibration(named_python(python))


def with_defaults(asked: RunSpec) -> RunSpec:
    """Return a run with its framework's defaults; nothing is predicted.

    Raises:
        SpecError: the run is not one that could be built.
    """
    return resolve(asked)


def with_findings(subject: Subject, *, breaking_only: bool = False) -> Subject:
    """Return a planned run with findings in its plan: those of the rules, and of a script that was tried those of lint.

    Args:
        subject: the run.
        breaking_only: only what says that the run will not work as described, which takes no plan of a changed run.

    Raises:
        SpecError: a described run is not one that could be built.
    """
    codes = rules.BREAKING if breaking_only else None
    target = subject.target
    if target is None:
        return rules.with_findings(subject, codes=codes)
    try:
        findings = rules.find(subject, codes=codes) if subject.is_changeable else ()
    except SpecError:
        findings = ()
    plan = replace(subject.plan, findings=findings)
    if breaking_only:
        return replace(subject, plan=plan)
    from rlmem.trace.linted import with_cause, with_lint

    plan = with_lint(plan, target, described=subject.is_changeable)
    leak = next((peak.leak for peak in plan.peaks if peak.leak is not None), None)
    return replace(subject, plan=plan if leak is None else with_cause(plan, leak, target))


def change_dry_run(
    subject: Subject, changes: Mapping[str, Any], origin: str, *, breaking_only: bool = False
) -> Subject:
    """Return a run that a dry run met with other values and findings.

    Its plan is the closed form of the changed run, moved by what the dry run saw beyond the closed form.

    Args:
        subject: the run as it was met.
        changes: values by field.
        origin: where they come from, in words.
        breaking_only: as of :func:`with_findings`.

    Raises:
        AnalysisError: the run is only known as it is.
        SpecError: the changed run is not one that could be built.
    """
    subject = with_findings(subject.having(changes, origin), breaking_only=breaking_only)
    return replace(subject, plan=replace(subject.plan, notes=(MOVED, *subject.plan.notes)))
