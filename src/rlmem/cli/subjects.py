"""A run as commands are given it: a preset, a run file, an RLlib configuration, or something to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlmem.cli.common import constants_for, find_run
from rlmem.errors import AnalysisError, UsageError

if TYPE_CHECKING:
    from rlmem.model.constants import Constants
    from rlmem.planner import Planner
    from rlmem.spec import RunSpec
    from rlmem.trace.subjects import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRun:
    """A run, read or tried once, to be planned for whatever limits there are."""

    plan_with: Callable[[Planner], Subject]
    #: The constants of its interpreter.
    constants: Constants


def asked_run(
    target: str,
    args: tuple[str, ...],
    sets: tuple[str, ...],
    python: str | None,
    timeout: float | None = None,
    cap: str | None = None,
    *,
    gpu: bool,
    findings: bool = True,
) -> AskedRun:
    """Read a description, or make a dry run of what can be run.

    Args:
        target: what ``rlmem plan`` takes.
        args: arguments of a script.
        sets: ``--set`` items.
        python: the run's interpreter; found beside a script when ``None``.
        timeout: seconds a dry run may take.
        cap: memory a dry run may take.
        gpu: whether there is a GPU, which a learner that chooses its device itself will take.
        findings: whether the plan of a description carries all findings, or only those that break it.

    Raises:
        UsageError: options of dry runs are given for a description.
    """
    from rlmem.trace.rllib import is_rllib
    from rlmem.trace.subjects import described, tried
    from rlmem.trace.target import is_runnable

    if is_runnable(target) and not is_rllib(target):
        from rlmem.cli.plan import try_out
        from rlmem.measure.calibration import read_calibration

        run = try_out(target, args, sets, python, timeout, cap, gpu=gpu)
        return AskedRun(plan_with=lambda planner: tried(planner, run), constants=read_calibration(run.target.python))
    _refuse(target, (args, "script arguments"), (timeout, "--timeout"), (cap, "--cap"))
    spec = find_run(target, sets, python)
    return AskedRun(
        plan_with=lambda planner: described(planner, spec, findings=findings), constants=constants_for(python)
    )


def _refuse(target: str, *options: tuple[object, str]) -> None:
    for given, option in options:
        if given:
            raise UsageError(f"{target}: {option} are for targets that are run, such as train.py")


def asked_spec(target: str, args: tuple[str, ...], sets: tuple[str, ...], python: str | None) -> RunSpec:
    """The description of a run; of a script the one that its dry run found."""
    from rlmem.plan import Budget
    from rlmem.planner import Planner
    from rlmem.trace.target import is_runnable

    if not is_runnable(target):
        _refuse(target, (args, "script arguments"))
        return find_run(target, sets, python)
    asked = asked_run(target, args, sets, python, gpu=False)
    return changeable(asked.plan_with(Planner(Budget(name="any machine"), asked.constants)), target).asked


def changeable(subject: Subject, target: str) -> Subject:
    """A run that can be planned changed; an error for a loop of its own, which has no description."""
    if subject.replan is None:
        raise AnalysisError(
            f"{target}: a loop of its own has no description that could be changed; 'rlmem plan' and 'rlmem fit' run it, and "
            "'rlmem measure --vary' measures other values"
        )
    return subject
