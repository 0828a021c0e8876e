"""What a run will need, by component and phase, and whether it fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rlmem.app.subjects import open_subject, with_findings
from rlmem.budget import make_budget
from rlmem.core.plan import Budget
from rlmem.core.progress import ShowProgress, show_nothing
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.documents.plan import PlanDocument, plan_document

if TYPE_CHECKING:
    from rlmem.cluster.nodes import NodeGroup
    from rlmem.documents.report import ReportDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A run to plan and the memory it may use.

    Attributes:
        target: a preset, a run file, a script, a factory, an RL Zoo entry or an RLlib configuration.
        budget: RAM, VRAM and cores that the run may use; ``None`` is what this process may use. Nodes take its place.
        nodes: the nodes of a cluster to place the run on.
        margin: on nodes, the share that is added to every bundle's upper bound.
        timeout_s: seconds a dry run may take.
        cap: memory a dry run may take before it is ended, in bytes or as text such as ``8GB``; ``None`` is most of what is
            left here now.
    """

    target: Target
    budget: Budget | None = None
    nodes: tuple[NodeGroup, ...] = ()
    margin: float = 0.1
    timeout_s: float | None = None
    cap: int | str | None = None

    def limits(self) -> Budget:
        """Return the budget that the run is predicted for; on nodes there is none before it is placed."""
        if self.nodes:
            return Budget(name=f"{sum(group.count for group in self.nodes):,} nodes")
        return self.budget or make_budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """A plan as a document, and the run it is of."""

    target: Target
    subject: Subject
    document: PlanDocument

    @property
    def exit_code(self) -> int:
        """1 when the run does not fit or will not work as described; 4 and 5 where there is no answer."""
        return self.subject.plan.exit_code

    def report(self, command: Sequence[str]) -> ReportDocument:
        """Return everything an HTML report shows of the run; ``command`` is what made it."""
        from rlmem.app.report import report_document

        return report_document(self.subject, target=self.target, command=command, plan=self.document)


def plan(request: PlanRequest, progress: ShowProgress = show_nothing) -> PlanDocument:
    """Return the memory plan of a run: what it will need, by component and phase, and whether it fits.

    Args:
        request: the run and the memory it may use.
        progress: shows what is being done; silent by default.

    Returns:
        The plan with its verdict and all findings; on nodes with where the run goes, which decides whether it fits.

    Raises:
        UsageError: the target cannot be read or run.
        AnalysisError: a dry run stopped before anything was known.
    """
    return plan_run(request, progress).document


def plan_run(request: PlanRequest, progress: ShowProgress = show_nothing) -> PlannedRun:
    """Plan a run as :func:`plan` does, and return the subject too, which can be planned again and reported on."""
    groups, budget = request.nodes, request.limits()
    gpu = bool(budget.vram_bytes)
    if groups:
        from rlmem.app.place import has_gpu

        gpu = has_gpu(groups)
    subject = open_subject(
        request.target, budget, progress=progress, timeout_s=request.timeout_s, cap=request.cap, gpu=gpu
    )
    if not groups:
        subject = with_findings(subject)
        return PlannedRun(target=request.target, subject=subject, document=plan_document(subject.plan))
    from rlmem.app.place import placement_document, plan_on_nodes

    subject, placement = plan_on_nodes(subject, groups, margin=request.margin)
    document = replace(plan_document(subject.plan), placement=placement_document(placement))
    return PlannedRun(target=request.target, subject=subject, document=document)
