"""The assessment of a run: its plan, what one of each costs, and how far the main knob can be turned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlmem.app.capacity import capacity_curve
from rlmem.app.report import report_document
from rlmem.app.subjects import changeable, open_subject, with_findings
from rlmem.core.plan import Budget, Plan
from rlmem.core.progress import ShowProgress, show_nothing
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.documents.plan import plan_document
from rlmem.documents.report import AssessmentDocument, ReportDocument, UnitPart


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedRun:
    """An assessment as a document, and the run it is of."""

    target: Target
    subject: Subject
    document: AssessmentDocument

    def report(self, command: Sequence[str]) -> ReportDocument:
        """Return everything an HTML report shows of the run; ``command`` is what made it."""
        return report_document(self.subject, target=self.target, command=command)


def assess(target: Target, budget: Budget, progress: ShowProgress = show_nothing) -> AssessedRun:
    """Assess a run: settings, unit costs, peak, capacity.

    Args:
        target: what ``rlmem plan`` takes, but for loops of one's own.
        budget: what there is for it.
        progress: shows what is being done.

    Raises:
        UsageError: the target cannot be read or run.
        AnalysisError: a dry run stopped before anything was known, or the run cannot be planned changed.
    """
    subject = open_subject(target, budget, progress=progress, gpu=bool(budget.vram_bytes))
    subject = with_findings(changeable(subject, target))
    return AssessedRun(target=target, subject=subject, document=assessment_document(subject))


def assessment_document(subject: Subject) -> AssessmentDocument:
    """Return the plan's document with unit costs and a capacity table beside it, of a run that can be planned changed."""
    plan = subject.plan
    return AssessmentDocument(plan=plan_document(plan), units=tuple(_units(plan)), capacity=capacity_curve(subject))


def _units(plan: Plan) -> list[UnitPart]:
    """What one transition, one rollout step, one sample of a batch, one agent or one environment costs."""
    spec = plan.spec
    rows: list[UnitPart] = []

    def add(unit: str, group: str, phase: str, count: int, what: str) -> None:
        entries = [e for e in plan.ledger.only(phase=phase).entries if e.component.startswith(group) and e.counts]
        nbytes = sum(e.nbytes for e in entries)
        if nbytes and count:
            rows.append(UnitPart(unit=unit, count=count, bytes_each=nbytes // count, nbytes=nbytes, what=what))

    if "buffer_size" in spec:
        slots = max(spec.count("buffer_size") // spec.count("n_envs"), 1) * spec.count("n_envs")
        add("transition", "replay.", "collect", slots, "replay buffer: observations, next observations, action, flags")
    elif "n_steps" in spec:
        samples = spec.count("n_steps") * spec.count("n_envs") * spec.count("agents")
        add(
            "rollout step",
            "rollout.",
            "collect",
            samples,
            "rollout: observations, actions, values and what is kept with them",
        )
    batch = spec.count("batch_size")
    add("sample of a batch", "batch.", "update", batch, "gathered, converted and normalised observations")
    add("sample of a batch", "learner.activations", "update", batch, "activations kept for backward at the peak")
    add("sample of a batch", "learner.backward", "update", batch, "gradients of activations at the peak")
    if spec.count("agents") > 1:
        add("agent", "workers.env-state", "build", spec.count("agents"), "environment state")
    add("environment", "workers.", "build", spec.count("n_envs"), "environment, its process and the wrappers' copies")
    return rows
