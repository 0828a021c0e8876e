"""Everything an HTML report shows of a run: its plan, and beside it growth, measurements, capacity and remedies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlmem.app.capacity import capacity_curve
from rlmem.app.runs import stored_sweep
from rlmem.app.step_text import write
from rlmem.app.steps import remedy_part, step_diff
from rlmem.core.fields import flatten
from rlmem.core.plan import Budget
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.documents.fit import RemedyPart
from rlmem.documents.growth import growth_curve
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.documents.recorded import RecordedDocument
from rlmem.documents.report import EnvironmentPart, ReportDocument
from rlmem.documents.sweep import SweepDocument
from rlmem.errors import RlmemError
from rlmem.planner import ClosedForm
from rlmem.remedies.base import SingleStep
from rlmem.remedies.search import Search
from rlmem.runner.facts import machine_facts, own_versions
from rlmem.runner.store import open_store, utc_now
from rlmem.sources import read_description


def report_document(
    subject: Subject, *, target: Target, command: Sequence[str], plan: PlanDocument | None = None
) -> ReportDocument:
    """Return the plan, and beside it growth, measurements, capacity, remedies, the environment and how to make it again.

    ``plan`` is the plan's document, where it has more in it: a placement.
    """
    plan = plan or plan_document(subject.plan)
    measured = newest_measurement(target.text)
    return ReportDocument(
        written=utc_now(),
        command=tuple(command),
        plan=plan,
        growth=growth_curve(plan),
        measured=measured,
        differs=tuple(other_settings(measured, target, subject.asked)) if measured else (),
        capacity=capacity_curve(subject),
        remedies=remedies(subject),
        environment=EnvironmentPart(machine=machine_facts(), versions={**subject.versions, **own_versions()}),
    )


def recorded_report(document: RecordedDocument) -> RecordedDocument:
    """Return a recorded run with what its plan says of its main knob and of remedies."""
    plan = document.plan
    if plan is None:
        return document
    machine = plan.machine
    limit = Budget(name="the run's limit", ram_bytes=machine.ram_bytes, ram_source=machine.ram_source or "")
    spec = RunSpec().having(flatten(plan.target.spec), "the recorded run")
    subject = ClosedForm().subject(spec, limit)
    return replace(document, capacity=capacity_curve(subject), remedies=remedies(subject))


def newest_measurement(target: str) -> SweepDocument | None:
    """The last sweep of ``rlmem measure`` over a target; None when there is none, or none that can be read."""
    try:
        with open_store() as store:
            run = next((run for run in store.runs(kind="measure") if run.target == target), None)
            return stored_sweep(store, run) if run else None
    except RlmemError:
        return None


def other_settings(measured: SweepDocument, target: Target, asked: RunSpec) -> list[str]:
    """Settings in which what was measured is another run than the one asked for, beside those that were varied."""
    if target.is_executable:
        return []
    try:
        theirs = flatten(read_description(replace(target, sets=measured.options.sets)).to_dict())
    except RlmemError:  # the run file has gone
        return []
    ours = flatten(asked.to_dict())
    varied = {axis.name for axis in measured.axes}
    return [
        f"{path} {theirs.get(path, 'unset')} (here {ours.get(path, 'unset')})"
        for path in dict.fromkeys((*theirs, *ours))
        if path not in varied and theirs.get(path) != ours.get(path)
    ]


def remedies(subject: Subject) -> tuple[RemedyPart, ...]:
    """Return every remedy by itself, the one that saves most at the peak first, each with the change to make."""
    if not subject.is_changeable:
        return ()
    device = subject.plan.deciding.device
    rows = [_remedy(item, subject) for item in Search(subject).single_steps()]
    helping = [row for row in rows if any(size > 0 for size in row.saves_bytes.values())]
    return tuple(sorted(helping, key=lambda row: (-row.saves_bytes.get(device, 0), -max(row.saves_bytes.values()))))


def _remedy(item: SingleStep, subject: Subject) -> RemedyPart:
    written = write(subject, (item.step,))
    is_diff = written.kind == "diff"
    return remedy_part(
        item.step,
        fits=item.fits,
        diff=written.text if is_diff else step_diff(item.step),
        text=None if is_diff or written.kind == "nothing" else written.text,
        by_hand=written.by_hand,
    )
