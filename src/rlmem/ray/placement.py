"""A plan as Ray takes it: a ``PlacementGroupFactory``, options of an actor; and a cluster's nodes as a plan takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from os import PathLike, fspath
from typing import Any

from rlmem.cluster.asking import workload_of
from rlmem.cluster.bundles import find_place
from rlmem.cluster.lacking import NODES, lacks
from rlmem.cluster.nodes import EXAMPLE, NodeGroup, parse_nodes
from rlmem.cluster.packing import pack
from rlmem.cluster.room import MARGIN, SHARES, Terms, frame_of
from rlmem.cluster.workload import Workload
from rlmem.core.machines import MACHINES
from rlmem.core.plan import Budget, Plan
from rlmem.core.resources import CUSTOM
from rlmem.core.spec import RunSpec
from rlmem.errors import AnalysisError, UsageError
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.ray.connecting import need_ray
from rlmem.sources import read_description
from rlmem.sources.target import parse_target
from rlmem.trace.rllib import describe_config
from rlmem.trials import check_margin
from rlmem.units import format_size

Wanted = Plan | RunSpec | Workload | str | PathLike[str]
Nodes = str | Iterable[NodeGroup] | None
#: Ray's word for a GPU where it says less than the catalogue; the smallest of those it may be.
_ACCELERATORS = {
    "A100": "a100-40gb",
    "V100": "v100-16gb",
    "A100-40G": "a100-40gb",
    "A100-80G": "a100-80gb",
    "H100": "h100-80gb",
}
_LABEL = "accelerator_type:"
_OWN = frozenset(["CPU", "GPU", "memory", "object_store_memory"])
#: Seconds that a node may take to say how much RAM it has; a worker may have to start there.
ASK_SECONDS = 60.0
_UNTOLD: dict[str, Any] = {"ram": None, "limit": None, "vram": None, "machine": None}


def placement_group_for(wanted: Wanted, nodes: Nodes = None, *, margin: float = MARGIN) -> Any:
    """A ``ray.tune.PlacementGroupFactory`` with the bundles of a run, the driver's first, for ``tune.with_resources``.

    ``wanted`` is a plan, a ``RunSpec``, or a described target: a preset, a run file, ``rllib:config.py:config`` (a script has to be run).
    ``nodes`` is what ``--nodes`` takes; then a run that does not fit is an error that says why. Without it, a bundle asks for its
    share of the GPU that the plan's budget names, or for what an RLlib configuration says, or for a whole one. Where a configuration
    asks for more of a GPU than its bytes need, so does the bundle: RLlib's learner would not start in a smaller one. What is
    enough, to be written there, is in ``resources_for``.
    """
    need_ray()
    from ray.tune import PlacementGroupFactory

    workload, vram = _workload(wanted)
    needs = tuple(replace(need, least_gpu=need.asked_gpu) for need in workload.needs)
    bundles = []
    for need, asked in zip(needs, _asked(replace(workload, needs=needs), vram, nodes, margin), strict=True):
        bundles += [_bundle({**asked, "GPU": max(asked["GPU"], need.asked_gpu), **dict(need.resources)})] * need.count
    groups = _groups(nodes)
    strategy = workload.strategy
    if groups is not None and not find_place(bundles, groups, workload, Terms(margin=margin), strategy=strategy):
        raise AnalysisError(
            f"{workload.name} does not fit these nodes: a bundle asks for the same wherever it lands, and with what the smallest of "
            "their GPUs makes it ask for there is no place for all; name nodes of one kind"
        )
    return PlacementGroupFactory(bundles, strategy=strategy)


def resources_for(
    wanted: Wanted, role: str | None = None, nodes: Nodes = None, *, margin: float = MARGIN
) -> dict[str, Any]:
    """``num_cpus``, ``num_gpus`` and ``memory`` of one bundle, for ``.options(**…)``; without a role, of the one that drives.

    Custom resources that it asks for are ``resources``, as Ray has it; without any, that is left out.
    """
    workload, vram = _workload(wanted)
    roles = [need.role for need in workload.needs]
    if role is not None and role not in roles:
        raise UsageError(f"no role {role!r} in this run; it has {', '.join(roles)}")
    index = 0 if role is None else roles.index(role)
    asked, custom = _asked(workload, vram, nodes, margin)[index], dict(workload.needs[index].resources)
    options = {"num_cpus": asked["CPU"], "num_gpus": asked["GPU"], "memory": asked["memory"]}
    return {**options, "resources": custom} if custom else options


def _asked(workload: Workload, vram: int | None, nodes: Nodes, margin: float) -> list[dict[str, float]]:
    """What one bundle of every need asks for; ``vram`` is that of the GPU it was planned for."""
    terms = Terms(margin=check_margin(margin))
    # Without nodes: one that limits nothing, with one GPU, the one the plan was made for, or one that nobody knows.
    groups = _groups(nodes) or (NodeGroup(name="any", ram_bytes=1 << 60, gpus=1, vram_bytes=vram),)
    if nodes is not None:
        packing = pack(workload, groups, terms, trials=1)
        if not packing.trials:
            raise AnalysisError(f"{workload.name} does not fit these nodes: {_why(packing)}")
    frames = [frame_of(group, workload, terms) for group in groups]
    asks = []
    for index, need in enumerate(workload.needs):
        # One number for all nodes: the largest that any node asks for on which a bundle can be at all.
        found = [frame.asks[index] for frame in frames if frame.asks[index].share <= SHARES]
        if not found:
            raise AnalysisError(
                f"{workload.name}: {need.role} needs {format_size(need.vram_bytes)} of GPU memory, more than one GPU has "
                f"({format_size(max(group.vram_bytes or 0 for group in groups))})"
            )
        share, memory = max(ask.share for ask in found) / SHARES, max(ask.memory_bytes for ask in found)
        if nodes is None and vram is None and need.asked_gpu:
            share = need.asked_gpu
        asks.append({"CPU": need.cpus, "GPU": share, "memory": memory})
    return asks


def _groups(nodes: Nodes) -> tuple[NodeGroup, ...] | None:
    if nodes is None:
        return None
    groups = parse_nodes(nodes) if isinstance(nodes, str) else tuple(nodes) if isinstance(nodes, Iterable) else ()
    if not groups or not all(isinstance(group, NodeGroup) for group in groups):
        raise UsageError(f"nodes={nodes!r}: write them like '{EXAMPLE}'")
    return groups


def _why(packing: Any) -> str:
    """The first thing that is missing, in a sentence."""
    lack = lacks(packing)[0]
    name = {
        "ram": "RAM",
        "vram": "GPU memory",
        "memory": "memory that Ray admits",
        "store": "object store",
        "cpus": "cores",
        NODES: "nodes that differ",
    }
    word = name.get(lack.resource) or lack.resource.removeprefix(CUSTOM)
    if not lack.never:
        return f"{lack.count} × {lack.role} find no place, for want of {word}"
    if lack.resource == "vram" and not lack.needs:
        return f"{lack.role} needs a GPU, and no node has one"
    counted = lack.resource == "cpus" or lack.resource.startswith(CUSTOM)
    shown = [f"{value:g}" if counted else format_size(value) for value in (lack.needs, lack.has)]
    return f"{lack.role} needs {shown[0]} of {word}, the nearest node has {shown[1]}"


def _bundle(asked: dict[str, float]) -> dict[str, float]:
    """A bundle without the resources it needs none of."""
    return {name: value for name, value in asked.items() if value}


def _workload(wanted: Wanted) -> tuple[Workload, int | None]:
    """What is wanted as a workload, and the GPU memory it was planned for."""
    if isinstance(wanted, Workload):
        return wanted, None
    if isinstance(wanted, Plan):
        return workload_of(wanted), wanted.budget.vram_bytes
    if isinstance(wanted, (str, PathLike)):
        wanted = fspath(wanted)
        target = parse_target(wanted)
        wanted = describe_config(target)[0] if target.kind == "rllib" else read_description(target)
    if not isinstance(wanted, RunSpec):
        raise UsageError(f"a plan, a RunSpec or a target such as 'pidog-sac', please, not {type(wanted).__name__}")
    return workload_of(ClosedForm(read_calibration()).plan(wanted, Budget(name="any"))), None


def nodes_of(ray: Any, *, ask: bool = True) -> tuple[NodeGroup, ...]:
    """The nodes of the cluster that ``ray`` is connected to, equal ones together, as if nothing were running on them.

    What Ray admits and how large stores are is what the nodes were started with. How much RAM and GPU memory a node has is asked of a
    worker there; with ``ask=False``, or without an answer, it is what Ray divides between workers and store, and what Ray
    calls the GPU. Nodes that share a machine have equal parts of its RAM.
    """
    alive = [node for node in ray.nodes() if node["Alive"]]
    if not alive:
        raise AnalysisError("the cluster has no living node; see 'ray status' there")
    told = _told(ray, [node["NodeID"] for node in alive]) if ask else {}
    machines = Counter(each["machine"] for each in told.values() if each["machine"])
    found: dict[NodeGroup, int] = {}
    names: dict[NodeGroup, str] = {}
    for node in alive:
        each = told.get(node["NodeID"], _UNTOLD)
        sizes = [each["limit"], None if each["ram"] is None else each["ram"] // max(1, machines[each["machine"]])]
        ram = min((size for size in sizes if size is not None), default=None)
        group = _node(node["Resources"], ram, each["vram"])
        found[group] = found.get(group, 0) + 1
        names.setdefault(group, str(node["NodeManagerAddress"]))
    return tuple(
        replace(group, count=count, name=names[group] if count == 1 else f"node like {names[group]}")
        for group, count in found.items()
    )


def _node(resources: dict[str, float], ram: int | None, vram: int | None) -> NodeGroup:
    memory, store = int(resources.get("memory", 0)), int(resources.get("object_store_memory", 0))
    label = next((name.removeprefix(_LABEL) for name in resources if name.startswith(_LABEL)), None)
    gpus = int(resources.get("GPU", 0))
    return NodeGroup(
        name="",
        ram_bytes=ram or memory + store,
        cpus=float(resources.get("CPU", 0)),
        gpus=gpus,
        gpu=label,
        vram_bytes=(vram or labelled_vram(label)) if gpus else None,
        memory_bytes=memory,
        store_bytes=store,
        resources=tuple(sorted((name, amount) for name, amount in resources.items() if not _is_own(name))),
    )


def _is_own(resource: str) -> bool:
    """Whether it is not a custom resource: what has a field of its own, and each node's address, by which equal nodes would differ."""
    return resource in _OWN or resource.startswith("node:")


def labelled_vram(label: str | None) -> int | None:
    """Memory of the card that Ray's label names; ``None`` when the catalogue does not know it.

    >>> labelled_vram("GeForce-RTX-4090") == labelled_vram("RTX-4090"), labelled_vram("H20") is None
    (True, True)
    """
    if label is None:
        return None
    key = _ACCELERATORS.get(label, label.lower().removeprefix("geforce-"))
    return next((machine.vram_bytes for machine in MACHINES if machine.kind == "card" and machine.name == key), None)


def _told(ray: Any, nodes: list[str]) -> dict[str, dict[str, Any]]:
    """What a worker on every node says: RAM, a limit of its own, memory of the smallest GPU, and which machine it is on.

    Ray looks at the machine or its container. A cgroup further in, such as a batch system's, is seen where rlmem is installed, and so
    are GPUs and whether nodes share a machine.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def tell() -> dict[str, Any]:
        from ray._common.utils import get_system_memory

        ram = int(get_system_memory())
        try:
            from rlmem.process.gpus import read_gpus
            from rlmem.process.limits import read_limits
            from rlmem.ray.looking import machine_key
        except ImportError:
            return {"ram": ram, "limit": None, "vram": None, "machine": None}
        return {
            "ram": ram,
            "limit": min((each.nbytes for each in read_limits() if each.kind.startswith("cgroup")), default=None),
            "vram": min((gpu.total_bytes for gpu in read_gpus()), default=None),
            "machine": machine_key(),
        }

    task = ray.remote(num_cpus=0, max_retries=0)(tell)
    asked = {
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node, soft=False)).remote(): node
        for node in nodes
    }
    ready, late = ray.wait(list(asked), num_returns=len(asked), timeout=ASK_SECONDS)
    for each in late:
        ray.cancel(each, force=True)
    found = {}
    for each in ready:
        try:
            found[asked[each]] = ray.get(each)
        except ray.exceptions.RayError:  # the node went away, or cannot start a worker: what Ray divides is known
            continue
    return found
