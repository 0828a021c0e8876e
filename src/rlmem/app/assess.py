"""The assessment of a run: its plan, what one of each costs, and how far the main knob can be turned."""

from __future__ import annotations

from rlmem.app.capacity import capacity_curve
from rlmem.core.subject import Subject
from rlmem.documents.plan import plan_document
from rlmem.documents.report import AssessmentDocument, UnitPart
from rlmem.plan import Plan


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
