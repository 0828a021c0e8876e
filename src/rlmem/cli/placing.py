"""What ``rlmem workers`` and ``rlmem plan --nodes`` share: nodes, margin, and a plan placed on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli.common import F, read_share
from rlmem.errors import RlmemError, UsageError
from rlmem.plan import EXIT_CODES

if TYPE_CHECKING:
    from rlmem.cluster.nodes import NodeGroup
    from rlmem.cluster.packing import Packing
    from rlmem.cluster.room import Terms
    from rlmem.cluster.workload import Workload
    from rlmem.core.subject import Subject
    from rlmem.documents.plan import PlanDocument
    from rlmem.findings import Finding
    from rlmem.plan import Budget, Plan

#: Findings that compare a peak with one limit.
DOES_NOT_FIT, TIGHT = "MEM001", "MEM002"

_NODES_HELP = (
    'Nodes to place the run on: "4x(64GB,16cpu,1xA100-80GB)", "64GB", "10xaws-g5-xlarge"; several groups with "+".'
)


def nodes_options(function: F) -> F:
    """``--nodes`` and ``--margin``."""
    function = click.option(
        "--margin",
        default="10%",
        show_default=True,
        metavar="SHARE",
        help="Added to every bundle's upper bound when it is placed, such as 10% or 0.1.",
    )(function)
    return click.option("--nodes", metavar="NODES", help=_NODES_HELP)(function)


def check_nodes(nodes: str | None, others: tuple[str | None, ...]) -> tuple[NodeGroup, ...]:
    """The groups of nodes that were named; other ways to say what there is contradict them."""
    from rlmem.cluster.nodes import parse_nodes

    if nodes is None:
        return ()
    if any(others):
        raise UsageError("--nodes and --ram/--vram/--machine contradict each other; use one")
    return parse_nodes(nodes)


def has_gpu(groups: tuple[NodeGroup, ...]) -> bool:
    """Whether any of the nodes has a GPU with memory of its own: a learner that chooses its device itself then takes it."""
    return any(group.vram_bytes is not None for group in groups)


def place_plan(subject: Subject, groups: tuple[NodeGroup, ...], margin: str) -> tuple[Subject, dict[str, Any]]:
    """A run that was planned without limits on the nodes, with findings, and its placement as a document.

    The placement comes first, and decides. A run in one place is then shown against a node that holds it, or against the one that
    comes nearest; a run that is spread has no single limit.
    """
    from rlmem.app.subjects import with_findings

    packing, placement = _placed(subject, groups, margin)
    if subject.spec.get("framework.name") == "rllib":
        return with_findings(subject), placement
    shown = with_findings(subject.under(_budget(packing)))
    findings = tuple(_on_nodes(shown.plan, packing.trials))
    return replace(shown, plan=replace(shown.plan, findings=findings)), placement


def on_nodes(subject: Subject, groups: tuple[NodeGroup, ...], margin: str) -> Subject:
    """A run against the node that a run in one place is shown against."""
    return subject.under(_budget(_placed(subject, groups, margin)[0]))


def _budget(packing: Packing) -> Budget:
    """What a run in one place may use on the node it is shown against, beside Ray and the margin."""
    from rlmem.cluster.asking import room_of
    from rlmem.plan import Budget
    from rlmem.units import MIB

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


def _on_nodes(plan: Plan, trials: int) -> Iterator[Finding]:
    """Findings without what contradicts the placement.

    It goes by upper bounds, its margin is what is kept spare, and what one trial leaves is for the next.
    """
    from rlmem.units import format_size

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


def judged_by_nodes(document: PlanDocument, placement: dict[str, Any]) -> tuple[PlanDocument, int]:
    """A plan's document with its placement, which decides whether it fits; the exit code."""
    broken = any(finding.severity == "error" and finding.code != DOES_NOT_FIT for finding in document.findings)
    verdict = "grows" if document.growth else "unknown" if document.unknown else "fits"
    verdict = verdict if placement["trials"] or verdict == "grows" else "does-not-fit"
    return replace(document, verdict=verdict, placement=placement), 1 if broken else EXIT_CODES.get(verdict, 0)


def shown_node(packing: Packing) -> NodeGroup:
    """The node that a run in one place is shown against: of those that hold it one that holds most of its trials, else the nearest."""
    from rlmem.cluster.lacking import lacks

    if not packing.trials:
        return packing.groups[lacks(packing)[0].group]
    homes = [0] * len(packing.groups)
    for use in packing.uses:
        homes[use.group] += use.nodes * use.homes
    return packing.groups[homes.index(max(homes))]


def placement_of(
    subject: Subject,
    groups: tuple[NodeGroup, ...],
    margin: str,
    *,
    on_ray: bool = True,
    shard: str | None = None,
) -> dict[str, Any]:
    """Where a planned run goes, as a document."""
    from rlmem.cluster.sharding import shard as shard_over
    from rlmem.report.placement import placement_document

    if shard is None:
        return _placed(subject, groups, margin, on_ray=on_ray)[1]
    if not subject.is_changeable:
        raise UsageError("--shard is for runs that can be planned again: a preset, a run file, or a script rlmem knows")
    found = shard_over(subject, shard, groups, _terms(margin), on_ray=on_ray)
    return placement_document(found.packing, about=subject.plan.spec.get("about"), sharding=found)


def _placed(
    subject: Subject, groups: tuple[NodeGroup, ...], margin: str, *, on_ray: bool = True
) -> tuple[Packing, dict[str, Any]]:
    """As many trials as fit, and that as a document."""
    from rlmem.cluster.answers import RUNNERS, most_bundles
    from rlmem.cluster.asking import workload_of
    from rlmem.cluster.packing import pack
    from rlmem.report.placement import placement_document

    terms = _terms(margin)
    workload = workload_of(subject.plan, on_ray=on_ray)
    packing = pack(workload, groups, terms)
    most = None
    if any(need.role == RUNNERS for need in workload.needs):
        most = most_bundles(workload, RUNNERS, groups, terms, again=_again(subject))
    return packing, placement_document(packing, about=subject.plan.spec.get("about"), most_runners=most)


def _terms(margin: str) -> Terms:
    from rlmem.cluster.room import Terms

    return Terms(margin=read_share(margin, "--margin"))


def _again(subject: Subject) -> Callable[[int], Workload] | None:
    """The workload of an RLlib run with another number of EnvRunners; what follows from it follows again."""
    from rlmem.cluster.asking import workload_of

    if not subject.is_changeable:
        return None

    def again(count: int) -> Workload:
        return workload_of(subject.changed({"rllib.num_env_runners": count}))

    try:
        again(1)
    except RlmemError:
        return None
    return again
