"""Fit what can be run: a dry run as ``rlmem plan`` makes it, a search over its description, and edits of its script."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlmem.capacity import over
from rlmem.core.subject import Subject
from rlmem.errors import AnalysisError
from rlmem.lint.reading import Text, Unreadable, read_file
from rlmem.programs.points import REFUSED
from rlmem.remedies.base import Constraints, Fit, Steps, changes_of
from rlmem.remedies.program import Written, snippet, with_hyperparameters, zoo, zoo_hyperparameters
from rlmem.remedies.script import edit_script
from rlmem.remedies.search import Search
from rlmem.scripts import Project, Script, ScriptError, parse_script
from rlmem.trace.drafts import Draft
from rlmem.trace.dryrun import DryRun
from rlmem.trace.fitted import START_SHARE, Fitted, Job, fitted_by_edits, lacking
from rlmem.trace.loops import Loop
from rlmem.trace.plan import plan_dry_run
from rlmem.trace.target import RunnableTarget


def fit_target(job: Job, constraints: Constraints) -> Fitted:
    """The smallest change that makes a target fit, and its text; nothing makes a leak fit, or what is unknown."""
    fitted = _fitted(job, constraints)
    if fitted.fit.status == "no" or not fitted.fit.start.plan.unknown:
        return fitted
    return replace(fitted, fit=replace(fitted.fit, status="unknown"))


def _fitted(job: Job, constraints: Constraints) -> Fitted:
    text, script = _script(job.target)
    run = job.run(job.target, f"dry run of {job.target.name}")
    try:
        found = plan_dry_run(run, job.budget, job.form)
    except AnalysisError:
        if script is None or text is None or not _was_refused(run):
            raise
        return Loop(job, constraints, None, text, script, run.facts).fitted()
    if found.plan.leaks:
        return Fitted(fit=Fit(start=found, status="grows"), written=Written(kind="nothing"))
    if not found.is_changeable:
        if script is None or text is None:
            return _unedited(found)
        return Loop(job, constraints, found, text, script, run.facts).fitted()
    if _was_refused(run) and "buffer_size" in found.plan.spec:
        found = _started_smaller(job, found)
    start = found.plan.spec

    def by_hand(steps: Steps) -> tuple[str, ...]:
        if job.target.kind == "zoo":
            return zoo(job.target.text, job.target.args, start, steps).by_hand
        return edit_script(script, start, steps).by_hand if script else snippet(start, steps).by_hand

    fit = Search(found, constraints, writable=lambda steps: not by_hand(steps)).fit()
    needed = _needed(job.target, fit.steps)
    if job.target.kind == "zoo":
        given, _ = zoo_hyperparameters(start, fit.steps)
        args = with_hyperparameters(job.target.args, given)
        written = zoo(job.target.text, job.target.args, start, fit.steps)
        return Fitted(fit=fit, written=_with(written, needed), args=args)
    if script is None or text is None:
        return Fitted(fit=fit, written=_with(snippet(start, fit.steps), needed))
    edited = edit_script(script, start, fit.steps)
    draft = Draft().and_edits(Path(job.target.text), text, edited.edits)
    return fitted_by_edits(fit, job.target, draft, (*edited.by_hand, *needed))


def _with(written: Written, more: tuple[str, ...]) -> Written:
    return replace(written, by_hand=(*written.by_hand, *more))


def _needed(target: RunnableTarget, steps: Steps) -> tuple[str, ...]:
    """What the target's interpreter lacks for a compact buffer."""
    if "storage" not in changes_of(steps):
        return ()
    return lacking(target, "rlmem", "numba")


def _started_smaller(job: Job, found: Subject) -> Subject:
    """A run whose buffer is refused here, seen with a smaller one: its data says what a compact store makes of it."""
    size = found.plan.spec.count("buffer_size")
    small = max(size // START_SHARE, 1)
    try:
        run = job.run(job.target, f"dry run with buffer_size {small:,}", {"buffer_size": small})
        seen = plan_dry_run(run, job.budget, job.form)
    except AnalysisError:
        return found
    if not seen.is_changeable:
        return found
    asked = seen.asked.having({"buffer_size": size}, found.plan.spec.origin("buffer_size"))
    plan = seen.plan_of(asked)
    note = f"as it is it cannot start here: a dry run with buffer_size {small:,} was extended by the closed form"
    plan = replace(plan, method="dry run", notes=(note, *seen.plan.notes))
    return replace(seen, plan=plan, asked=asked)


def _was_refused(run: DryRun) -> bool:
    """Whether a run ended because memory was refused, by the system or by its cap."""
    message = str((run.stop or {}).get("message", ""))
    return run.outcome.status == "oom" or any(word in message for word in REFUSED)


def _unedited(found: Subject) -> Fitted:
    """A loop of its own in something that is not a script to edit."""
    status = "already" if over(found.plan) <= 0 else "expected" if over(found.plan, expected=True) <= 0 else "no"
    return Fitted(fit=Fit(start=found, status=status), written=Written(kind="nothing"))


def _script(target: RunnableTarget) -> tuple[Text | None, Script | None]:
    """The text of a script and what it says; no script where it cannot be read as one (the dry run will say why)."""
    if target.kind != "script":
        return None, None
    try:
        text = read_file(Path(target.text))
        return text, parse_script(text.text, target.text, project=Project())
    except (Unreadable, ScriptError):
        return None, None
