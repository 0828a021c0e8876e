"""What a task asks Ray for: memory by its plan; or that no node can ever give it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlmem.core.points import PredictedPeak
from rlmem.errors import AnalysisError
from rlmem.units import MIB, format_size

#: The worker and the keeper beside the work itself; measured at 130 MiB of PSS together (Ray 2.60, Python 3.11).
BESIDE_BYTES = 160 * MIB
#: More than any node has.
_ALL = 1 << 60
#: Ray's words for the resources of a node.
_CPU, _GPU, _MEMORY = "CPU", "GPU", "memory"


class NoRoomError(AnalysisError):
    """No node of the cluster can ever run it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A living node and what Ray divides there."""

    id: str
    name: str
    cpus: float = 0.0
    gpus: float = 0.0
    memory_bytes: int = 0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Node:
        """From a row of ``ray.nodes()``."""
        resources = row.get("Resources", {})
        host = row.get("NodeManagerHostname") or row.get("NodeManagerAddress") or "node"
        return cls(
            id=row["NodeID"],
            name=f"{host} ({row['NodeID'][:6]})",  # several nodes may share a machine
            cpus=resources.get(_CPU, 0.0),
            gpus=resources.get(_GPU, 0.0),
            memory_bytes=int(resources.get(_MEMORY, 0)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a piece of work needs by its plan; unknown is ``None``."""

    expected_bytes: int | None = None
    high_bytes: int | None = None
    gpus: int = 0
    #: Who says so, or what for.
    why: str = "by the plan"

    @classmethod
    def of(
        cls, predicted: PredictedPeak | None, *, cap_bytes: int | None, gpus: int = 0, why: str = "by the plan"
    ) -> Need:
        """From a prediction, and a cap above which the work is ended anyway."""
        if predicted is None:
            return cls(expected_bytes=cap_bytes, high_bytes=cap_bytes, gpus=gpus, why=why)
        most = predicted.high if cap_bytes is None else min(cap_bytes, predicted.high)
        return cls(expected_bytes=min(most, predicted.expected), high_bytes=most, gpus=gpus, why=why)

    def alone(self) -> Need:
        """The same, with a node's memory to itself."""
        return replace(self, expected_bytes=self.expected_bytes or 0, high_bytes=_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Options of a task."""

    memory_bytes: int | None
    gpus: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """As ``.options(…)`` takes them."""
        memory = {} if self.memory_bytes is None else {_MEMORY: self.memory_bytes}
        return {"num_cpus": 1, "num_gpus": self.gpus, **memory}

    def fits(self, node: Node) -> bool:
        """Whether a node, with nothing else on it, could run it."""
        return node.cpus >= 1 and node.gpus >= self.gpus and node.memory_bytes >= (self.memory_bytes or 0)


def alive(rows: Sequence[Mapping[str, Any]]) -> tuple[Node, ...]:
    """The living nodes of ``ray.nodes()``."""
    return tuple(Node.of(row) for row in rows if row.get("Alive"))


def reserve(need: Need, nodes: Sequence[Node]) -> Ask:
    """The plan's upper bound where a node has that; all a node has where the expected figure fits; else an error."""
    able = [node for node in nodes if node.cpus >= 1 and node.gpus >= need.gpus]
    if not able:
        lack = "a GPU" if need.gpus and any(node.cpus >= 1 for node in nodes) else "a CPU for it"
        raise NoRoomError(f"no node of the cluster has {lack}: {len(nodes)} alive")
    if need.high_bytes is None or need.expected_bytes is None:
        return Ask(memory_bytes=None, gpus=need.gpus)
    largest = max(able, key=lambda node: node.memory_bytes)
    wanted = need.high_bytes + BESIDE_BYTES
    if wanted > largest.memory_bytes:
        least = need.expected_bytes + BESIDE_BYTES
        if least > largest.memory_bytes:
            raise NoRoomError(
                f"not started: needs {format_size(least)} ({format_size(need.expected_bytes)} {need.why}, "
                f"{format_size(BESIDE_BYTES)} for Ray's worker beside it), and the largest node, {largest.name}, has "
                f"{format_size(largest.memory_bytes)} for Ray; a smaller --cap runs it until there"
            )
        wanted = largest.memory_bytes
    return Ask(memory_bytes=wanted, gpus=need.gpus)
