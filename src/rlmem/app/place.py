"""Runs on nodes: where they go, and the plan of a run against the node it is shown on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rlmem.app.subjects import with_findings
from rlmem.cluster.answers import RUNNERS, most_bundles, node_holds
from rlmem.cluster.asking import room_of, workload_of
from rlmem.cluster.lacking import lacks
from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import Packing, Use, pack
from rlmem.cluster.room import SHARES, SPILL_SHARE, Terms
from rlmem.cluster.sharding import Sharding
from rlmem.cluster.sharding import shard as shard_over
from rlmem.cluster.workload import Workload
from rlmem.core.findings import Finding
from rlmem.core.plan import DOES_NOT_FIT, Budget, Plan
from rlmem.core.resources import RESOURCES
from rlmem.core.subject import Subject
from rlmem.documents.parts import part_of
from rlmem.documents.placement import (
    BundlePart,
    LackPart,
    MostPart,
    NodesPart,
    PlacedPart,
    PlacementDocument,
    RoomPart,
    ShardsPart,
    TermsPart,
    UsePart,
)
from rlmem.errors import RlmemError, UsageError
from rlmem.units import MIB, format_size

#: The other finding that compares a peak with one limit.
TIGHT = "MEM002"
#: Ray gives an object store this share of a node's RAM when nobody says otherwise, 200 GB at most (2.60).
DEFAULT_STORE_SHARE, DEFAULT_STORE_MOST = 0.3, 200 * 10**9


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


def placement_document(placement: Placement) -> PlacementDocument:
    """Return a placement as a document."""
    packing, sharding = placement.packing, placement.sharding
    workload = packing.workload
    most = placement.most_runners
    return PlacementDocument(
        target=PlacedPart(name=workload.name, about=placement.about),
        terms=TermsPart(margin=packing.terms.margin, kill_share=packing.terms.kill_share, spill_share=SPILL_SHARE),
        nodes=tuple(_nodes_part(group, packing.terms.usable_bytes(group)) for group in packing.groups),
        bundles=tuple(_bundle_part(packing, index) for index in range(len(workload.needs))),
        strategy=workload.strategy,
        node_bytes=workload.node_bytes,
        flight_bytes=workload.store_bytes,
        on_ray=any(frame.stores for frame in packing.frames),
        trials=packing.trials,
        at_least=packing.at_least,
        limit=_limit(packing),
        uses=tuple(_use_part(use) for use in packing.uses),
        idle_nodes=packing.idle_nodes,
        holds=tuple(part_of(RoomPart, row, by=dict(row.by)) for row in node_holds(packing)),
        most=None if most is None else MostPart(role=RUNNERS, count=most),
        shards=None
        if sharding is None
        else ShardsPart(path=sharding.path, whole=sharding.whole, count=sharding.shards, each=sharding.each),
        lacks=tuple(part_of(LackPart, lack) for lack in lacks(packing)),
    )


def _nodes_part(group: NodeGroup, usable_bytes: int) -> NodesPart:
    return part_of(
        NodesPart,
        group,
        usable_bytes=usable_bytes,
        resources=None if group.resources is None else dict(group.resources),
        default_store_bytes=min(int(group.ram_bytes * DEFAULT_STORE_SHARE), DEFAULT_STORE_MOST),
    )


def _bundle_part(packing: Packing, index: int) -> BundlePart:
    need, asks = packing.workload.needs[index], [frame.asks[index] for frame in packing.frames]
    return BundlePart(
        role=need.role,
        count=need.count,
        expected_bytes=need.expected_bytes,
        high_bytes=need.ram_bytes,
        vram_bytes=need.vram_bytes,
        cache_bytes=need.cache_bytes if need.vram_bytes else 0,
        memory_bytes=tuple(ask.memory_bytes for ask in asks),
        cpus=need.cpus,
        gpus=tuple(None if ask.share > SHARES else ask.share / SHARES for ask in asks),
        whole_gpu=need.whole_gpu,
        asked_gpu=need.asked_gpu,
        resources=dict(need.resources),
    )


def _use_part(use: Use) -> UsePart:
    return part_of(
        UsePart,
        use,
        bundles=dict(use.bundles),
        trials=use.homes,
        object_store_bytes=use.store_bytes,
        gpus=tuple(use.gpus),
    )


def _limit(packing: Packing) -> str | None:
    """What stops one more trial: the resource of which the nodes in use have the least left for their kind of bundle."""
    if not packing.uses or not packing.trials:
        return None
    rows = [row for row in node_holds(packing) if row.limit]
    if len(packing.workload.needs) == 1 and packing.workload.needs[0].count == 1:
        row = max(rows, key=lambda row: row.count, default=None)
        return row.limit if row else None
    shares = dict.fromkeys(RESOURCES, 0.0)
    nodes = sum(use.nodes for use in packing.uses)
    for use in packing.uses:
        group = packing.groups[use.group]
        shares["ram"] += use.nodes * use.ram_bytes / use.usable_bytes / nodes
        shares["cpus"] += use.nodes * use.cpus / group.cpus / nodes if group.cpus else 0.0
        shares["vram"] += use.nodes * sum(use.gpus) / len(use.gpus) / nodes if use.gpus else 0.0
        shares["memory"] += use.nodes * use.memory_bytes / group.memory_bytes / nodes if group.memory_bytes else 0.0
    return max(shares, key=lambda resource: shares[resource])
