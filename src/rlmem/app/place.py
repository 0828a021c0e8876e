"""Runs on nodes: where they go, and the plan of a run against the node it is shown on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rlmem.app.subjects import with_findings
from rlmem.cluster.answers import RUNNERS, most_bundles
from rlmem.cluster.asking import room_of, workload_of
from rlmem.cluster.lacking import lacks
from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import Packing, pack
from rlmem.cluster.room import Terms
from rlmem.cluster.sharding import Sharding
from rlmem.cluster.sharding import shard as shard_over
from rlmem.cluster.workload import Workload
from rlmem.core.subject import Subject
from rlmem.errors import RlmemError, UsageError
from rlmem.findings import Finding
from rlmem.plan import DOES_NOT_FIT, Budget, Plan
from rlmem.units import MIB, format_size

#: The other finding that compares a peak with one limit.
TIGHT = "MEM002"


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a run goes on nodes."""

    packing: Packing
    #: The run in a sentence, where its description has one.
    about: str | None = None
    #: The most EnvRunners one trial of an RLlib run can have.
    most_runners: int | None = None
    #: The run divided over learners, where that was asked for.
    sharding: Sharding | None = None

    @property
    def trials(self) -> int:
        """How many find room at once."""
        return self.packing.trials


def place(
    subject: Subject,
    groups: tuple[NodeGroup, ...],
    *,
    margin: float,
    on_ray: bool = True,
    shard: str | None = None,
) -> Placement:
    """Find room on nodes for as many trials of a run as fit.

    Args:
        subject: the run, planned without limits.
        groups: the nodes.
        margin: the share that is added to every bundle's upper bound.
        on_ray: whether Ray and its object store take a part of each node.
        shard: a count to divide over learners, such as ``agents``; then for the smallest number of them that fits.

    Raises:
        UsageError: the run cannot be divided.
    """
    terms, about = Terms(margin=margin), subject.spec.get("about")
    if shard is not None:
        if not subject.is_changeable:
            raise UsageError(
                "--shard is for runs that can be planned again: a preset, a run file, or a script rlmem knows"
            )
        sharding = shard_over(subject, shard, groups, terms, on_ray=on_ray)
        return Placement(packing=sharding.packing, about=about, sharding=sharding)
    workload = workload_of(subject.plan, on_ray=on_ray)
    packing = pack(workload, groups, terms)
    most = None
    if any(need.role == RUNNERS for need in workload.needs):
        most = most_bundles(workload, RUNNERS, groups, terms, again=_with_runners(subject))
    return Placement(packing=packing, about=about, most_runners=most)


def plan_on_nodes(subject: Subject, groups: tuple[NodeGroup, ...], *, margin: float) -> tuple[Subject, Placement]:
    """Return a run that was planned without limits as its placement has it, with findings, and the placement.

    The placement decides whether it fits. A run in one place is shown against a node that holds it, or against the one that comes
    nearest; a run that is spread has no single limit.
    """
    placement = place(subject, groups, margin=margin)
    if subject.spec.get("framework.name") == "rllib":
        found = with_findings(subject)
        return replace(found, plan=replace(found.plan, trials=placement.trials)), placement
    found = with_findings(subject.under(budget_on(placement.packing)))
    findings = tuple(_on_nodes(found.plan, placement.trials))
    return replace(found, plan=replace(found.plan, findings=findings, trials=placement.trials)), placement


def budget_on(packing: Packing) -> Budget:
    """Return what a run in one place may use on the node it is shown against, beside Ray and the margin."""
    node = shown_node(packing)
    ram, vram = room_of(node, packing.terms)
    return Budget(
        name=node.name,
        ram_bytes=max(MIB, ram),
        vram_bytes=vram,
        unified=node.unified,
        cores=None if node.cpus is None else int(node.cpus),
        ram_source=f"one node of {node.name}, less Ray and the margin",
    )


def shown_node(packing: Packing) -> NodeGroup:
    """The node that a run in one place is shown against: of those that hold it one that holds most of its trials, else the nearest."""
    if not packing.trials:
        return packing.groups[lacks(packing)[0].group]
    homes = [0] * len(packing.groups)
    for use in packing.uses:
        homes[use.group] += use.nodes * use.homes
    return packing.groups[homes.index(max(homes))]


def has_gpu(groups: tuple[NodeGroup, ...]) -> bool:
    """Whether any of the nodes has a GPU with memory of its own: a learner that chooses its device itself then takes it."""
    return any(group.vram_bytes is not None for group in groups)


def _on_nodes(plan: Plan, trials: int) -> Iterator[Finding]:
    """Findings without what contradicts the placement.

    It goes by upper bounds, its margin is what is kept spare, and what one trial leaves is for the next.
    """
    tops = {top.device.upper(): top for top in plan.tops}
    for finding in plan.findings:
        if finding.code not in (DOES_NOT_FIT, TIGHT):
            yield finding
            continue
        device = finding.title.split()[0]
        top = tops[device]
        if trials or top.limit_bytes is None or top.high_bytes <= top.limit_bytes:
            continue
        if finding.code == DOES_NOT_FIT:
            yield finding
        else:
            over = f"{format_size(top.high_bytes)}, {format_size(top.high_bytes - top.limit_bytes)} more than a trial may have"
            yield replace(finding, title=f"{device} may reach {over} on {plan.budget.name}")


def _with_runners(subject: Subject) -> Callable[[int], Workload] | None:
    """The workload of an RLlib run with another number of EnvRunners; what follows from it follows again."""
    if not subject.is_changeable:
        return None

    def again(count: int) -> Workload:
        return workload_of(subject.changed({"rllib.num_env_runners": count}))

    try:
        again(1)
    except RlmemError:
        return None
    return again
