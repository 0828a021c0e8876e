"""One run shared out over learners: a count such as ``agents`` is divided, everything else is held by each of them.

The learners exchange gradients, so each holds one more copy of them while it does (NCCL's and Gloo's buckets), and each has a GPU of
its own where there are GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rlmem.cluster.answers import node_holds
from rlmem.cluster.asking import workload_of
from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import TERMS, Packing, pack
from rlmem.cluster.room import Terms, largest
from rlmem.cluster.workload import Need, Workload
from rlmem.core.fields import find_field
from rlmem.core.plan import Plan
from rlmem.core.subject import Subject
from rlmem.errors import UsageError

#: Learners beyond any training; more is a run that does not get smaller by being divided.
MOST_SHARDS = 1 << 17
GRADIENTS = "learner.gradients"
LEARNER = "learner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """A run divided over learners."""

    path: str
    whole: int
    shards: int
    #: The plan of the largest shard.
    plan: Plan
    packing: Packing

    @property
    def each(self) -> int:
        """What the largest shard has of the count."""
        return -(-self.whole // self.shards)


def shard(
    subject: Subject,
    path: str,
    groups: Iterable[NodeGroup],
    terms: Terms = TERMS,
    *,
    on_ray: bool = True,
) -> Sharding:
    """The smallest number of learners over which a run fits the nodes; if none does, the smallest of which one fits a node.

    Shards shrink as their number grows, so that more of them fit a node; but what each holds whatever its size adds up. From the
    first number of which one fits a node, numbers are doubled until all find a place, then the last step is halved. On nodes of
    several kinds the numbers that fit may lie between two of those; there smaller steps are tried as well.
    """
    if find_field(path).kind != "count":
        raise UsageError(f"--shard {path}: only counts can be divided, such as agents or n_envs")
    nodes = tuple(groups)
    whole = int(subject.spec.need(path))

    def at(shards: int) -> Sharding:
        plan = subject.changed({path: -(-whole // shards)})
        packing = pack(_workload(plan, shards, on_ray=on_ray), nodes, terms, trials=1)
        return Sharding(path=path, whole=whole, shards=shards, plan=plan, packing=packing)

    most = min(MOST_SHARDS, whole)
    start = largest(lambda shards: not _one_fits(at(shards)), most) + 1
    if start > most:  # not even the smallest shard fits a node
        return at(most)
    low, high, found = start - 1, start, at(start)
    first = found
    while not found.packing.trials:
        low, high = high, 2 * high
        if high > most:
            numbers = _numbers(start, most) if len(nodes) > 1 else iter((most,))
            return next((tried for shards in numbers if (tried := at(shards)).packing.trials), first)
        found = at(high)
    while high - low > 1:
        middle = at((low + high) // 2)
        if middle.packing.trials:
            high, found = middle.shards, middle
        else:
            low = middle.shards
    return found


def _numbers(first: int, last: int) -> Iterator[int]:
    """From the first number to the last, each about a tenth more than the one before."""
    number = first
    while number < last:
        yield number
        number += max(1, number // 10)
    yield last


def _one_fits(sharding: Sharding) -> bool:
    return any(row.count for row in node_holds(sharding.packing))


def _workload(plan: Plan, shards: int, *, on_ray: bool) -> Workload:
    """As many learners, all with what the largest shard needs and a copy of the gradients."""
    base = workload_of(plan, on_ray=on_ray)
    if len(base.needs) > 1:
        raise UsageError(f"{plan.spec.name}: --shard is for a run in one process; RLlib has rllib.num_learners")
    (one,) = base.needs
    on_gpu = one.vram_bytes > 0
    device = "vram" if on_gpu else "ram"
    copies = [
        entry.amount.high for entry in plan.ledger.entries if (entry.component, entry.device) == (GRADIENTS, device)
    ]
    copy = max(copies, default=0) if shards > 1 else 0
    need = Need(
        role=LEARNER,
        count=shards,
        ram_bytes=one.ram_bytes + (0 if on_gpu else copy),
        expected_bytes=None if one.expected_bytes is None else one.expected_bytes + (0 if on_gpu else copy),
        vram_bytes=one.vram_bytes + (copy if on_gpu else 0),
        cache_bytes=one.cache_bytes,
        whole_gpu=on_gpu and shards > 1,
        cpus=one.cpus,
    )
    return Workload(name=base.name, needs=(need,), node_bytes=base.node_bytes, store_bytes=base.store_bytes)
