"""What ``rlmem workers`` and ``rlmem plan --nodes`` share: nodes, margin, and a plan placed on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli.common import F, constants_for, read_share
from rlmem.errors import RlmemError, UsageError

if TYPE_CHECKING:
    from rlmem.cluster.nodes import NodeGroup
    from rlmem.cluster.workload import Workload
    from rlmem.planner import Planner
    from rlmem.spec import RunSpec
    from rlmem.trace.subjects import Subject

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


def nodes_sizes(groups: tuple[NodeGroup, ...], margin: str) -> tuple[str, str | None]:
    """RAM and GPU memory that a run in one place has on the largest node, as the options for one machine take them."""
    ram, vram = _room(_largest(groups), margin)
    return f"{ram}B", f"{vram}B" if vram else None


def nodes_planner(spec: RunSpec, groups: tuple[NodeGroup, ...], margin: str, python: str | None) -> Planner:
    """A run in one place is judged by the largest node; one that is spread has no single limit, and its placement judges."""
    from rlmem.plan import Budget
    from rlmem.planner import Planner

    budget = Budget(name=f"{sum(group.count for group in groups):,} nodes")
    if spec.get("framework.name") != "rllib":
        node = _largest(groups)
        ram, vram = _room(node, margin)
        budget = Budget(
            name=node.name,
            ram_bytes=ram,
            vram_bytes=vram,
            unified=node.unified,
            cores=None if node.cpus is None else int(node.cpus),
            ram_source=f"one node of {node.name}, less Ray and the margin",
        )
    return Planner(budget, constants_for(python))


def _room(node: NodeGroup, margin: str) -> tuple[int, int | None]:
    from rlmem.cluster.asking import room_of
    from rlmem.cluster.room import Terms
    from rlmem.units import MIB

    ram, vram = room_of(node, Terms(margin=read_share(margin, "--margin")))
    return max(MIB, ram), vram


def _largest(groups: tuple[NodeGroup, ...]) -> NodeGroup:
    return max(groups, key=lambda group: (group.vram_bytes or 0, group.ram_bytes))


def place_plan(document: dict[str, Any], subject: Subject, groups: tuple[NodeGroup, ...], margin: str) -> bool:
    """Add a placement to a plan's document; whether a trial fits."""
    document["placement"] = placement_of(subject, groups, margin)
    placed = bool(document["placement"]["trials"])
    if not placed:
        document["verdict"] = "does-not-fit"
    elif document["verdict"] == "unknown":  # a run over several nodes has no other limit
        document["verdict"] = "fits"
    return placed


def placement_of(
    subject: Subject,
    groups: tuple[NodeGroup, ...],
    margin: str,
    *,
    on_ray: bool = True,
    shard: str | None = None,
) -> dict[str, Any]:
    """Where a planned run goes, as a document."""
    from rlmem.cluster.answers import RUNNERS, most_bundles
    from rlmem.cluster.asking import workload_of
    from rlmem.cluster.packing import pack
    from rlmem.cluster.room import Terms
    from rlmem.cluster.sharding import shard as shard_over
    from rlmem.report.placement import placement_document

    terms = Terms(margin=read_share(margin, "--margin"))
    about = subject.plan.spec.get("about")
    if shard is not None:
        if subject.replan is None:
            raise UsageError(
                "--shard is for runs that can be planned again: a preset, a run file, or a script rlmem knows"
            )
        found = shard_over(subject.asked, shard, subject.replan, groups, terms, on_ray=on_ray)
        return placement_document(found.packing, about=about, sharding=found)
    workload = workload_of(subject.plan, on_ray=on_ray)
    packing = pack(workload, groups, terms)
    most = None
    if any(need.role == RUNNERS for need in workload.needs):
        most = most_bundles(workload, RUNNERS, groups, terms, again=_again(subject))
    return placement_document(packing, about=about, most_runners=most)


def _again(subject: Subject) -> Callable[[int], Workload] | None:
    """The workload of an RLlib run with another number of EnvRunners; what follows from it follows again."""
    from rlmem.cluster.asking import workload_of

    replan = subject.replan
    if replan is None:
        return None

    def again(count: int) -> Workload:
        changed = subject.asked.having({"rllib.num_env_runners": count}, f"{count:,} EnvRunners")
        return workload_of(replan(changed))

    try:
        again(1)
    except RlmemError:
        return None
    return again
