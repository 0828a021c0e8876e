"""Runs that are planned again and again, as those of a server: predicted once, and tried once."""

from __future__ import annotations

from rlmem.app.subjects import prepare_job
from rlmem.budget import cap_bytes
from rlmem.core.plan import Budget
from rlmem.core.progress import ShowProgress
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.errors import AnalysisError
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.trace.dryrun import DryRun
from rlmem.trace.plan import plan_dry_run
from rlmem.trace.target import find_runnable


class DryRunMissingError(AnalysisError):
    """A run that has to be tried a little before it can be planned."""


class PlanSession:
    """Opens runs for somebody who asks again and again: what one plan has predicted serves the others."""

    def __init__(self) -> None:
        self._form: ClosedForm | None = None
        self._runs: dict[str, DryRun] = {}

    def open_described(self, asked: RunSpec, budget: Budget) -> Subject:
        """Return a described run, planned against a budget, without findings.

        Raises:
            SpecError: the run is not one that could be built.
        """
        return self._current_form().subject(asked, budget)

    def open_dry_run(self, target: str, budget: Budget) -> Subject:
        """Return a run as its dry run met it, planned against a budget, without findings.

        Raises:
            DryRunMissingError: :meth:`try_run` has not run it.
        """
        run = self._runs.get(target)
        if run is None:
            raise DryRunMissingError(f"{target} has to be tried before it can be planned")
        return plan_dry_run(run, budget, self._current_form())

    def try_run(self, target: Target, progress: ShowProgress) -> None:
        """Run a little of a target, as ``rlmem plan`` does, and keep what was met.

        Args:
            target: a script, a factory or an RL Zoo entry.
            progress: shows what is being done; it may end the run by an exception.

        Raises:
            UsageError: the target cannot be run.
            AnalysisError: the run stopped before anything was known.
        """
        anywhere = Budget(name="this machine")
        job = prepare_job(target, anywhere, progress=progress, timeout_s=None, cap_bytes=cap_bytes(None), gpu=False)
        run = job.run(job.target, f"dry run of {job.target.name}")
        if run.stop is not None and run.met is None:
            raise AnalysisError(f"it stopped: {run.stop.get('message', 'for an unknown reason')}")
        self._runs[target.text] = run

    def _current_form(self) -> ClosedForm:
        """One closed form for all runs; another one after a calibration."""
        constants = read_calibration()
        if self._form is None or self._form.constants != constants:
            self._form = ClosedForm(constants)
        return self._form


def check_runnable(target: Target) -> None:
    """Refuse a target that cannot be run here.

    Raises:
        UsageError: it cannot be read, or nothing here can run it.
    """
    find_runnable(target)
