"""What a plan asks of a cluster: bundles of processes that live together, and what every node pays once."""

from __future__ import annotations

from dataclasses import dataclass

#: How Ray may place the bundles of one trial (``ray.util.placement_group``, 2.60). PACK and SPREAD are wishes, the strict ones are not.
STRATEGIES = PACK, SPREAD, STRICT_PACK, STRICT_SPREAD = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bundles of one role: how many, and what each must have on the node it lands on."""

    role: str
    count: int = 1
    #: Heap of one bundle's processes at its largest, upper bound; pages of files that every process of a node shares are not in it.
    ram_bytes: int
    #: The same, expected.
    expected_bytes: int | None = None
    vram_bytes: int = 0
    #: What torch keeps of a GPU's memory when it has freed it: it gives that back to itself, not to a neighbour on the GPU.
    cache_bytes: int = 0
    #: Learners that exchange gradients: NCCL refuses two of them on one GPU.
    whole_gpu: bool = False
    #: What its process asks Ray for of a GPU, as it is configured; how much it needs is for its bytes to say.
    asked_gpu: float = 0.0
    #: What a bundle takes of a GPU at least, whatever its bytes.
    least_gpu: float = 0.0
    cpus: float = 1.0
    #: Custom resources of Ray's that it asks for, by name.
    resources: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One run (or one trial): its bundles, the first of which drives; what a node pays once; and the object store."""

    name: str
    needs: tuple[Need, ...]
    #: What a node pays once, however many bundles of whatever run it holds: Ray's own processes, shared library pages.
    node_bytes: int = 0
    #: Bytes in flight in object stores over all nodes together, upper bound.
    store_bytes: int = 0
    #: One of ``STRATEGIES``.
    strategy: str = PACK

    @property
    def bundles(self) -> int:
        """How many bundles there are."""
        return sum(need.count for need in self.needs)

    @property
    def ram_bytes(self) -> int:
        """All bundles and the objects in flight, without what nodes pay once."""
        return sum(need.count * need.ram_bytes for need in self.needs) + self.store_bytes
