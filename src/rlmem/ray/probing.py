"""One probe actor a node: asked together, waited for no longer than a deadline, gone afterwards.

A node that dies, hangs or has no rlmem is a line of the result and never an error: the others are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from rlmem.cluster.holdings import ClusterHoldings, NodeHoldings, StoreHoldings, from_data, to_data
from rlmem.errors import AnalysisError
from rlmem.ray.actors import Tables, as_tables, read_tables, tagged
from rlmem.ray.looking import Known, look, machine_key
from rlmem.version import __version__

#: A worker of a busy node takes seconds to start.
DEADLINE_S = 30.0
#: What marks a node's processes as nobody's own: the head of a cluster has this resource.
_HEAD = "node:__internal_head__"
_ROUND_S = 0.2


class Probe:
    """The actor. It holds nothing, needs no CPU of Ray's, and does what it is asked in its own process."""

    def hello(self) -> None:
        """Answered as soon as the node has a worker for us that can import rlmem."""

    def tables(self) -> dict[str, Any]:
        """Ray's own tables, which any process of the cluster can read."""
        return read_tables()

    def look(self, known: Known, options: Mapping[str, Any]) -> dict[str, Any]:
        """The node, and which machine it is."""
        return {"node": to_data(look(known, **options)), "machine": machine_key(), "rlmem": __version__}


class Probes:
    """Probes on every living node of a cluster; :func:`probes` makes them and takes them away."""

    def __init__(self, ray: Any, *, deadline_s: float, own_driver: bool) -> None:
        self._ray, self._deadline_s = ray, deadline_s
        self._nodes = sorted((node for node in ray.nodes() if node["Alive"]), key=_head_first)
        if not self._nodes:
            raise AnalysisError("the cluster has no living node")
        #: The job of our own driver.
        self._own: str | None = ray.get_runtime_context().get_job_id() if own_driver else None
        self._actors: dict[str, Any] = {}
        self._problems: dict[str, str] = {}
        self._teller: str | None = None  # the node whose probe reads Ray's tables
        self._untold: str | None = None  # why they could not be read

    def start(self) -> None:
        """Ask Ray for the actors; they come up side by side."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = self._ray.remote(Probe)
        for node in self._nodes:
            where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            options = {"num_cpus": 0, "num_gpus": 0, "memory": 0, "max_restarts": 0, "scheduling_strategy": where}
            self._actors[node["NodeID"]] = actor.options(**options).remote()

    def close(self) -> None:
        """Take the actors away; those of dead nodes are gone already."""
        for actor in self._actors.values():
            with suppress(Exception):  # Ray is shut down, or the node is gone: there is nothing left to end
                self._ray.kill(actor)
        self._actors.clear()

    def ask(
        self,
        *,
        names: bool = False,
        timeout_s: float = 2.0,
        evaluation: Collection[str] = (),
        tell: Callable[[str], None] | None = None,
    ) -> ClusterHoldings:
        """The cluster now. Without ``names`` sums only: PSS, USS and shared memory of each process, in milliseconds a node."""
        begin = time.monotonic()
        deadline = begin + self._deadline_s
        self._problems = {}
        tables = self._tables(deadline)
        options = {"names": names, "timeout_s": timeout_s, "patience_s": 0.6 * self._deadline_s}
        asked = {}
        for node, actor in self._actors.items():
            known = Known(
                node_id=node,
                drivers=tables.pids(node, drivers=True),
                workers=tables.pids(node, drivers=False),
                askers=tables.askers(node, self._own),
            )
            asked[node] = actor.look.remote(known, options)
        said = self._answers(asked, deadline, tell)
        nodes = tagged(self._assembled(said, tables), tables, evaluation=evaluation)
        return ClusterHoldings(
            nodes=nodes,
            address=self._ray.get_runtime_context().gcs_address,
            ray=self._ray.__version__,
            seconds=time.monotonic() - begin,
            untold=self._untold,
        )

    def _tables(self, deadline: float) -> Tables:
        """From the first node that answers; none when no node does, and then why."""
        self._untold = f"no answer within {self._deadline_s:g} s"
        order = [self._teller] if self._teller else []
        waiting = {} if order else {actor.hello.remote(): node for node, actor in self._actors.items()}
        while (order or waiting) and time.monotonic() < deadline:
            if not order:
                ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=_ROUND_S)
                order = [waiting.pop(reference) for reference in ready]
                continue
            node = order.pop()
            left = max(0.1, deadline - time.monotonic())
            try:
                data = self._ray.get(self._actors[node].tables.remote(), timeout=min(left, self._deadline_s / 3))
            except Exception as error:  # another node may answer
                self._untold = _why(error)
                if self._teller == node:
                    self._teller = None
                    waiting = {actor.hello.remote(): name for name, actor in self._actors.items() if name != node}
                continue
            self._teller, self._untold = node, None
            return as_tables(data)
        return Tables()

    def _answers(self, asked: Mapping[str, Any], deadline: float, tell: Callable[[str], None] | None) -> dict[str, Any]:
        """What came before the deadline; why nothing came is noted for the others."""
        waiting = {reference: node for node, reference in asked.items()}
        said: dict[str, Any] = {}
        while waiting:
            left = deadline - time.monotonic()
            ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=max(0.0, min(left, _ROUND_S)))
            if not ready and left <= 0:
                break
            for reference in ready:
                node = waiting.pop(reference)
                try:
                    said[node] = self._ray.get(reference)
                except Exception as error:
                    self._problems[node] = _why(error)
                self._tell(node, tell)
        for node in waiting.values():
            self._problems[node] = f"no answer within {self._deadline_s:g} s"
            self._tell(node, tell)
        return said

    def _tell(self, node: str, tell: Callable[[str], None] | None) -> None:
        if tell is not None:
            tell(f"node {self._address(node)} ({node[:6]}): {self._problems.get(node, 'answered')}")

    def _address(self, node_id: str) -> str:
        return next(node["NodeManagerAddress"] for node in self._nodes if node["NodeID"] == node_id)

    def _assembled(self, said: Mapping[str, Any], tables: Tables) -> list[NodeHoldings]:
        """One noun for every node, answered or not; a process that two nodes of one machine saw is the first one's."""
        seen: set[tuple[str, int, int]] = set()
        left = dict(tables.store_left)
        found = []
        for node in self._nodes:
            node_id, resources = node["NodeID"], node["Resources"]
            each = from_data(said[node_id]["node"]) if node_id in said else NodeHoldings(node_id=node_id)
            if node_id in said:
                machine = said[node_id]["machine"]
                own = tuple(one for one in each.processes if (machine, one.pid, one.start) not in seen)
                seen |= {(machine, one.pid, one.start) for one in own}
                notes = (f"rlmem {said[node_id]['rlmem']} there, {__version__} here",)
                differs = said[node_id]["rlmem"] != __version__
                each = replace(each, processes=own, notes=(*each.notes, *(notes if differs else ())))
            capacity = int(resources["object_store_memory"]) if "object_store_memory" in resources else None
            primary = _primary(capacity, left.get(node_id))
            found.append(
                replace(
                    each,
                    address=node["NodeManagerAddress"],
                    host=node["NodeManagerHostname"],
                    is_head=_HEAD in resources,
                    problem=self._problems.get(node_id),
                    schedulable_bytes=int(resources["memory"]) if "memory" in resources else None,
                    store=StoreHoldings(
                        capacity_bytes=capacity or each.store.capacity_bytes,
                        primary_bytes=primary,
                        resident_bytes=each.store.resident_bytes,
                        spilled_bytes=each.store.spilled_bytes,
                    ),
                )
            )
        return found


@contextmanager
def probes(ray: Any, *, deadline_s: float = DEADLINE_S, own_driver: bool = False) -> Iterator[Probes]:
    """Probes that stay for several questions, and are gone afterwards.

    ``own_driver`` says that this process is connected for nothing but this, and is not shown.
    """
    made = Probes(ray, deadline_s=deadline_s, own_driver=own_driver)
    try:
        made.start()
        yield made
    finally:
        made.close()


def probe_once(
    ray: Any,
    *,
    names: bool = False,
    deadline_s: float = DEADLINE_S,
    own_driver: bool = False,
    timeout_s: float = 2.0,
    evaluation: Collection[str] = (),
    tell: Callable[[str], None] | None = None,
) -> ClusterHoldings:
    """The cluster that ``ray`` is connected to, now: sums of every process, with ``names`` owners too."""
    with probes(ray, deadline_s=deadline_s, own_driver=own_driver) as made:
        return made.ask(names=names, timeout_s=timeout_s, evaluation=evaluation, tell=tell)


def _head_first(node: Mapping[str, Any]) -> tuple[bool, str, int]:
    return _HEAD not in node["Resources"], node["NodeManagerAddress"], node["NodeManagerPort"]


def _primary(capacity: int | None, left: int | None) -> int | None:
    """Objects that must stay. One byte is Ray's way to say that all of them are on the disk (node_manager.cc, Ray 2.60)."""
    if capacity is None or left is None:
        return None
    used = max(0, capacity - left)
    return 0 if used == 1 else used


def _why(error: Exception) -> str:
    """Why a node did not answer, in a line."""
    kind, text = type(error).__name__, " ".join(str(error).split())
    if "No module named 'rlmem" in text or "failed to import" in text or "failed to be imported" in text:
        return f"rlmem cannot be imported there: install rlmem {__version__} on the node"
    if kind in {"ActorDiedError", "ActorUnavailableError", "ActorUnschedulableError", "NodeDiedError", "RayActorError"}:
        return "the node or our probe on it died while it was asked"
    if kind.startswith("RayTaskError"):  # of a traceback, the last line says what it was
        return str(error).strip().splitlines()[-1].strip()[:200]
    return f"{kind}: {text[:200]}"
