"""What other training stacks would hold of the same rollout."""

from __future__ import annotations

from rlmem.app.place import budget_on, place
from rlmem.app.plan import PlanRequest
from rlmem.app.subjects import constants_for
from rlmem.core.ledger import matches
from rlmem.core.plan import Plan
from rlmem.core.subject import Subject
from rlmem.documents.parts import part_of
from rlmem.documents.stacks import OwnRunPart, StackPart, StacksDocument
from rlmem.errors import UsageError
from rlmem.frameworks.stacks import STACKS, materialised
from rlmem.planner import ClosedForm
from rlmem.sources import read_description

#: What a rollout keeps of observations, in the words of the adapters.
_OBSERVED = ("rollout.observations", "rollout.stacked", "rollout.flatten-copy", "rollout.stream", "rollout.extra")


def stacks(request: PlanRequest) -> StacksDocument:
    """Return what other training stacks would hold of the rollout of a described run.

    Raises:
        UsageError: the target is run, not described, or keeps no rollout.
    """
    target = request.target
    if target.is_executable:
        raise UsageError(f"{target.text}: --stacks is for described runs, a preset or a run file")
    form = ClosedForm(constants_for(target.python))
    subject = form.subject(read_description(target), request.limits())
    if request.nodes:
        subject = subject.under(budget_on(place(subject, request.nodes, margin=request.margin).packing))
    return compare_stacks(subject)


def compare_stacks(subject: Subject) -> StacksDocument:
    """Return one row for each stack, and this run as it is described and, for a window, with its stream kept once.

    Args:
        subject: a described run, planned.

    Raises:
        UsageError: the run keeps no rollout.
    """
    whole, own = materialised(subject.asked), subject.plan
    runs = [("as described", own)]
    if own.spec.window is not None and own.spec.get("storage") != "stream":
        runs.append(("storage=stream", subject.changed({"storage": "stream"})))
    return StacksDocument(
        target=own.spec.name,
        observations_bytes=whole.value,
        formula=whole.formula,
        basis="read from the sources named, nothing measured; observations only",
        stacks=tuple(part_of(StackPart, stack, nbytes=stack.factor * whole.value) for stack in STACKS),
        runs=tuple(_own_run(name, plan, whole.value) for name, plan in runs),
    )


def _own_run(name: str, plan: Plan, whole_bytes: int) -> OwnRunPart:
    nbytes = observed_bytes(plan)
    return OwnRunPart(name=name, nbytes=nbytes, factor=nbytes / whole_bytes)


def observed_bytes(plan: Plan) -> int:
    """Return the most a plan holds of a rollout's observations in one phase."""
    by_phase: dict[str, int] = {}
    for entry in plan.ledger.entries:
        if entry.counts and any(matches(entry.component, name) for name in _OBSERVED):
            by_phase[entry.phase] = by_phase.get(entry.phase, 0) + entry.nbytes
    return max(by_phase.values(), default=0)
