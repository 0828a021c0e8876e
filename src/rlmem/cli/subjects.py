"""A run as commands are given it: a preset, a run file, an RLlib configuration, or something to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlmem.cli.common import constants_for, find_run
from rlmem.errors import AnalysisError, UsageError

if TYPE_CHECKING:
    from rlmem.core.target import Target
    from rlmem.model.constants import Constants
    from rlmem.planner import Planner
    from rlmem.spec import RunSpec
    from rlmem.trace.dryrun import DryRun
    from rlmem.trace.subjects import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRun:
    """A run, read or tried once, to be planned for whatever limits there are."""

    plan_with: Callable[[Planner], Subject]
    #: The constants of its interpreter.
    constants: Constants


def asked_run(
    target: Target, timeout: float | None = None, cap: str | None = None, *, gpu: bool, findings: bool = True
) -> AskedRun:
    """Read a description, or make a dry run of what can be run.

    Args:
        target: what ``rlmem plan`` takes.
        timeout: seconds a dry run may take.
        cap: memory a dry run may take.
        gpu: whether there is a GPU, which a learner that chooses its device itself will take.
        findings: whether the plan of a description carries all findings, or only those that break it.

    Raises:
        UsageError: options of dry runs are given for a description.
    """
    from rlmem.trace.subjects import described, tried

    if target.is_executable:
        from rlmem.measure.calibration import read_calibration

        run = _try_out(target, timeout, cap, gpu=gpu)
        return AskedRun(plan_with=lambda planner: tried(planner, run), constants=read_calibration(run.target.python))
    _refuse(target, (target.args, "script arguments"), (timeout, "--timeout"), (cap, "--cap"))
    spec = find_run(target)
    return AskedRun(
        plan_with=lambda planner: described(planner, spec, findings=findings), constants=constants_for(target.python)
    )


def _try_out(target: Target, timeout: float | None, cap: str | None, *, gpu: bool) -> DryRun:
    """A dry run of a target; ``gpu`` says that there is one, which a learner that chooses its device itself will take."""
    from rlmem.budget import cap_bytes
    from rlmem.report.progress import working
    from rlmem.trace.changes import prepare_run
    from rlmem.trace.dryrun import dry_run

    found, changes, device = prepare_run(target)
    most = cap_bytes(cap)
    device = device or ("cuda" if gpu else None)
    with working(f"dry run of {found.name}") as tick:
        return dry_run(
            found, changes=changes, cap_bytes=most, time_s=timeout, device=device, on_tick=tick, on_phase=tick.phase
        )


def _refuse(target: Target, *options: tuple[object, str]) -> None:
    for given, option in options:
        if given:
            raise UsageError(f"{target.text}: {option} are for targets that are run, such as train.py")


def asked_spec(target: Target) -> RunSpec:
    """The description of a run; of a script the one that its dry run found."""
    from rlmem.plan import Budget
    from rlmem.planner import Planner

    if not target.is_executable:
        _refuse(target, (target.args, "script arguments"))
        return find_run(target)
    asked = asked_run(target, gpu=False)
    return changeable(asked.plan_with(Planner(Budget(name="any machine"), asked.constants)), target.text).asked


def changeable(subject: Subject, target: str) -> Subject:
    """A run that can be planned changed; an error for a loop of its own, which has no description."""
    if subject.replan is None:
        raise AnalysisError(
            f"{target}: a loop of its own has no description that could be changed; 'rlmem plan' and 'rlmem fit' run it, and "
            "'rlmem measure --vary' measures other values"
        )
    return subject
