"""Who is who in a cluster: actors, workers and drivers from Ray's own tables, and what that makes of a process.

Read from the GCS, which every cluster has; the state API (``ray.util.state``) needs the dashboard and is not used. Checked
with Ray 2.60.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rlmem.cluster.holdings import NodeHoldings, ProcessHoldings
from rlmem.core.roles import DRIVER, ENV_RUNNER, RAY, TRIAL, is_rays_own, role_of, role_of_title, short_class

#: The words an algorithm of RLlib has for itself: PPO(env=CartPole-v1; env-runners=2; learners=1; multi-agent=False).
_ENV_RUNNERS = re.compile(r"\benv-runners=(\d+)")
_BUNDLE = re.compile(r"^\w+_group_(\d+)_[0-9a-f]+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """A living actor."""

    actor_id: str
    node_id: str
    pid: int
    class_name: str
    name: str | None = None
    label: str | None = None
    job: str | None = None
    worker: str = ""
    owner: str = ""  # the worker that made it
    group: str = ""  # its placement group
    bundle: int | None = None
    started: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A living process that Ray knows, by its node and number."""

    node_id: str
    pid: int
    kind: str = "WORKER"  # DRIVER, SPILL_WORKER, RESTORE_WORKER
    job: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What Ray says of its processes, and how much of each node's object store is free."""

    actors: tuple[Actor, ...] = ()
    workers: tuple[Worker, ...] = ()
    store_left: tuple[tuple[str, int], ...] = ()

    def pids(self, node_id: str, *, drivers: bool) -> tuple[int, ...]:
        """Of one node's drivers, or of its other workers."""
        return tuple(
            sorted(each.pid for each in self.workers if each.node_id == node_id and (each.kind == "DRIVER") == drivers)
        )

    def askers(self, node_id: str, job: str | None) -> tuple[int, ...]:
        """Of one node, the driver of a job: through Ray's client that is a process of the head's, not the one that asks."""
        return tuple(
            each.pid
            for each in self.workers
            if each.node_id == node_id and each.kind == "DRIVER" and each.job is not None and each.job == job
        )


def read_tables() -> dict[str, Any]:
    """Ray's tables as plain data, from inside a process that is connected to the cluster."""
    from ray._private import state
    from ray.core.generated import gcs_pb2

    accessor = accessor_of(state.state)
    actors = [gcs_pb2.ActorTableData.FromString(each) for each in accessor.get_actor_table(None, "ALIVE")]
    workers = [gcs_pb2.WorkerTableData.FromString(each) for each in accessor.get_worker_table()]
    return {
        "actors": [asdict(_actor(row)) for row in actors],
        "workers": [asdict(_worker(row)) for row in workers if row.is_alive],
        # A resource of which nothing is left is not listed.
        "store_left": [
            (node, int(resources.get("object_store_memory", 0)))
            for node, resources in state.available_resources_per_node().items()
        ],
    }


def accessor_of(state: Any) -> Any:
    """What reads the GCS, connected; Ray before 2.52 has it under another name."""
    if hasattr(state, "_connect_and_get_accessor"):
        return state._connect_and_get_accessor()
    state._check_connected()
    return state.global_state_accessor


def _actor(row: Any) -> Actor:
    bundles = (_BUNDLE.match(key) for key in row.required_resources)
    return Actor(
        actor_id=row.actor_id.hex(),
        node_id=row.address.node_id.hex(),
        pid=row.pid,
        class_name=row.class_name,
        name=row.name or None,
        label=row.repr_name or None,
        job=row.job_id.hex(),
        worker=row.address.worker_id.hex(),
        owner=row.owner_address.worker_id.hex(),
        group=row.placement_group_id.hex(),
        bundle=next((int(found[1]) for found in bundles if found), None),
        started=float(row.start_time),
    )


def _worker(row: Any) -> Worker:
    kind = row.DESCRIPTOR.fields_by_name["worker_type"].enum_type.values_by_number[row.worker_type].name
    # The worker number of a driver begins with that of its job.
    job = row.worker_address.worker_id.hex()[:8] if kind == "DRIVER" else None
    return Worker(node_id=row.worker_address.node_id.hex(), pid=row.pid, kind=kind, job=job)


def as_tables(data: Mapping[str, Any]) -> Tables:
    """From plain data."""
    return Tables(
        actors=tuple(Actor(**each) for each in data["actors"]),
        workers=tuple(Worker(**each) for each in data["workers"]),
        store_left=tuple((node, left) for node, left in data["store_left"]),
    )


# -- what that makes of a process ---------------------------------------------------------------------------------------


def tagged(
    nodes: Sequence[NodeHoldings], tables: Tables, *, evaluation: Container[str] = ()
) -> tuple[NodeHoldings, ...]:
    """The nodes with each process's actor, role, trial and job; ``evaluation`` are actors known to evaluate."""
    folders = {(node.node_id, each.pid): each.trial for node in nodes for each in node.processes if each.trial}
    trials = _trials(tables.actors, folders)
    judges = _evaluating(tables.actors)
    by_place = {(actor.node_id, actor.pid): actor for actor in tables.actors}
    workers = {(each.node_id, each.pid): each for each in tables.workers}

    def tag(node_id: str, process: ProcessHoldings) -> ProcessHoldings:
        place = (node_id, process.parent if process.parent is not None else process.pid)
        actor, worker = by_place.get(place), workers.get(place)
        if actor is not None:
            role = role_of(actor.class_name, is_evaluation=actor.actor_id in judges or actor.actor_id in evaluation)
            own = role == short_class(actor.class_name)
            return replace(
                process,
                role=TRIAL if own and place in folders else role,
                actor_class=short_class(actor.class_name),
                actor_name=actor.name,
                actor_id=actor.actor_id,
                label=actor.label,
                trial=trials.get(actor.actor_id),
                job=actor.job,
            )
        if worker is not None and worker.kind == "DRIVER":
            return replace(process, role=DRIVER, job=worker.job)
        if worker is not None and worker.kind != "WORKER":
            return replace(process, role=RAY)
        if process.parent is not None:
            above = next((each for each in titles[node_id] if each.pid == process.parent), None)
            return replace(process, role=_plain_role(above.command if above else process.command))
        return replace(process, role=_plain_role(process.command))

    titles = {node.node_id: node.processes for node in nodes}
    return tuple(replace(node, processes=tuple(tag(node.node_id, each) for each in node.processes)) for node in nodes)


def _plain_role(command: str) -> str:
    """Of a process without an actor that is no driver: one of Ray's own, one that waits, one with a task."""
    return RAY if is_rays_own(command) else role_of_title(command)


def _trials(actors: Sequence[Actor], folders: Mapping[tuple[str, int], str]) -> dict[str, str]:
    """The trial of each actor: of the folder it works in, of who made it, or of who shares its placement group."""
    by_worker = {actor.worker: actor for actor in actors}
    found = {
        actor.actor_id: folders[actor.node_id, actor.pid] for actor in actors if (actor.node_id, actor.pid) in folders
    }
    groups = {actor.group: found[actor.actor_id] for actor in actors if actor.group and actor.actor_id in found}
    for actor in actors:
        above: Actor | None = actor
        seen: set[str] = set()
        while above is not None and above.actor_id not in seen:
            seen.add(above.actor_id)
            trial = found.get(above.actor_id) or groups.get(above.group)
            if trial:
                found.setdefault(actor.actor_id, trial)
                break
            above = by_worker.get(above.owner)
    return found


def _evaluating(actors: Sequence[Actor]) -> frozenset[str]:
    """Env runners that evaluate, where their algorithm is an actor.

    Its own words say how many runners collect. They have its placement group's bundles from 1 on and those that evaluate the
    next ones (``Algorithm.default_resource_request`` of RLlib 2.60); without a group they are made in that order.
    """
    found: set[str] = set()
    for algorithm in actors:
        words = _ENV_RUNNERS.search(algorithm.label or "")
        if words is None:
            continue
        collect = int(words[1])
        made = [each for each in actors if each.owner == algorithm.worker and role_of(each.class_name) == ENV_RUNNER]
        if all(each.bundle is not None for each in made):
            found |= {each.actor_id for each in made if (each.bundle or 0) > collect}
        else:
            ordered = sorted(made, key=lambda each: each.started)
            found |= {each.actor_id for each in ordered[collect:]}
    return frozenset(found)
