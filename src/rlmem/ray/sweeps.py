"""Sweeps and benchmarks on a cluster: each point or profile a task, sized by its own plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rlmem.budget import CAP_SHARE, free_here
from rlmem.core.plan import Budget
from rlmem.core.points import Point, PointLimits, PredictedPeak, Values, axes_text
from rlmem.core.spec import RunSpec
from rlmem.core.target import Target
from rlmem.frameworks import predict, resolve
from rlmem.process.calibration import read_calibration
from rlmem.process.limits import cpu_count
from rlmem.ray.connecting import connected
from rlmem.ray.dispatch import Dispatch, Ended, Step
from rlmem.ray.reserving import Need, Node, alive
from rlmem.ray.works import BenchWork, DescribedWork, DryRunWork, Place, TracedWork, portable
from rlmem.sources import read_description
from rlmem.trace.changes import changes_from
from rlmem.units import MIB

if TYPE_CHECKING:
    from rlmem.programs.bench import Benched, BenchOptions
    from rlmem.runner.sweep import Execute, Job, Sweep
    from rlmem.sources.profiles import Profile
    from rlmem.trace.points import Foreseen

#: Points put nothing into the object store; this is next to the least Ray takes (75 MiB), and fits any /dev/shm but Docker's own.
STORE_BYTES = 80 * MIB
#: What a dry run is asked to stay under (``trace.dryrun.OWN_BYTES``), and what most take: PPO, DQN and SAC of RL Zoo on small
#: environments peaked at 441 to 448 MiB (torch 2.13, Python 3.11); worker processes come on top.
DRY_RUN = PredictedPeak(low=441 * MIB, expected=600 * MIB, high=1400 * MIB)
FOR_DRY_RUN = "for the dry run"

Say = Callable[[str], None]


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Connected to Ray; where there is none, to one of our own that divides what may really be used here.

    Ray tells drivers of lost workers on standard output, which is for results: here the rows say it.
    """
    free = free_here().ram_bytes
    own = {
        "num_cpus": cpu_count(),
        "include_dashboard": False,
        "object_store_memory": STORE_BYTES,
        **({} if free is None else {"_memory": round(free * CAP_SHARE)}),
    }
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        connected(address, own=own) as ray,
    ):
        yield ray


def nodes_text(ray: Any) -> str:
    """``Ray 2.60.0, 3 nodes, 24 CPUs``."""
    nodes = alive(ray.nodes())
    cpus = sum(node.cpus for node in nodes)
    return f"Ray {ray.__version__}, {len(nodes)} node{'s' * (len(nodes) != 1)}, {cpus:g} CPU{'s' * (cpus != 1)}"


def cluster_facts(ray: Any) -> dict[str, Any]:
    """What a result says about where it came from, in place of a machine's facts."""
    nodes = alive(ray.nodes())
    return {
        "system": nodes_text(ray),
        "cores": int(sum(node.cpus for node in nodes)),
        "ram_bytes": None,
        "limit_bytes": None,
        "limit_source": None,
        "gpus": [],
    }


def largest_budget(ray: Any) -> Budget:
    """What a run may use on the largest node, as far as Ray divides it."""
    nodes = alive(ray.nodes())
    best: Node | None = max(nodes, key=lambda node: node.memory_bytes, default=None)
    if best is None or not best.memory_bytes:
        return Budget(name="the cluster")
    return Budget(name="the cluster", ram_bytes=best.memory_bytes, ram_source=f"the largest node of Ray, {best.name}")


def measuring(ray: Any, sweep: Sweep, python: str | None, say: Say) -> Execute:
    """What measures the points of a sweep there; ``python`` is the interpreter that was named, if one was."""
    target, limits = replace(sweep.target, python=python), sweep.limits
    planned: dict[str, tuple[PredictedPeak, int]] = {}  # points are repeated, and their plans the same

    def described(job: Job, spec: RunSpec) -> Step:
        values = axes_text(job.values)
        if values not in planned:
            varied = spec.having(dict(job.values), "--vary")
            planned[values] = predicted_bytes(varied, python), _gpus(varied)
        predicted, gpus = planned[values]
        need = Need.of(predicted, cap_bytes=limits.cap_bytes, gpus=gpus)
        work = DescribedWork(spec=spec, values=job.values, limits=limits, python=python)
        return Step(work=work, need=need, predicted=predicted)

    def steps(jobs: Sequence[Job]) -> Iterator[tuple[Job, Step]]:
        if target.is_executable:
            place, has_gpu = Place.of(target), any(node.gpus >= 1 for node in alive(ray.nodes()))
            for job in jobs:
                yield job, traced(target, job.values, limits, place, has_gpu=has_gpu)
        else:
            spec = portable(read_description(target))
            yield from ((job, described(job, spec)) for job in jobs)

    def execute(jobs: Sequence[Job]) -> Generator[tuple[Job, Point], None, None]:
        by_key = {job.key: job for job in jobs}
        items = ((job.key, step) for job, step in steps(jobs))
        with closing(dispatch(ray, say).run(items)) as run:
            for ended in run:
                job = by_key[ended.key]
                yield job, point_of(ended, ended.result, job.values)

    return execute


def traced(target: Target, values: Values, limits: PointLimits, place: Place, *, has_gpu: bool) -> Step:
    """A dry run, and then what it foresees; ``has_gpu`` says whether a node of the cluster has a GPU.

    The dry run needs none: of SB3's models it tells what they would choose where there is one. A loop of its own that loads torch
    is tried once more with a GPU, as it may look for one. What uses a GPU is measured with one, and sees no other.
    """
    named = _named_device(target, values)
    meant = target if named or not has_gpu else replace(target, sets=(*target.sets, "device=cuda"))
    asked: dict[str, Any] = {"values": values, "place": place, "limits": limits}
    cap = limits.cap_bytes

    def dry_run(gpus: int, then: Callable[[Foreseen], Step]) -> Step:
        need = Need.of(DRY_RUN, cap_bytes=cap, gpus=gpus, why=FOR_DRY_RUN)
        return Step(work=DryRunWork(**asked, target=meant), need=need, then=then)

    def measured(foreseen: Foreseen) -> Step:
        gpus = int(named.startswith("cuda") or (has_gpu and foreseen.uses_gpu is True))
        need = Need.of(foreseen.predicted, cap_bytes=cap, gpus=gpus)
        work = TracedWork(**asked, target=target, foreseen=foreseen)
        return Step(work=work, need=need, predicted=foreseen.predicted)

    def then(foreseen: Foreseen) -> Step:
        sees_one = has_gpu and not (named and not named.startswith("cuda"))
        return dry_run(1, measured) if foreseen.uses_gpu is None and sees_one else measured(foreseen)

    return dry_run(0, then)


def _named_device(target: Target, values: Values) -> str:
    """The device that ``--vary`` or ``--set`` names; empty when neither does."""
    return str(values.get("device") or changes_from(target.sets)[1] or "")


def benching(
    ray: Any, spec: RunSpec, profiles: Sequence[Profile], options: BenchOptions, python: str | None, say: Say
) -> Generator[Benched, None, None]:
    """Profiles, as they end."""
    from rlmem.programs.bench import Benched, as_filled

    by_name = {profile.name: profile for profile in profiles}

    def step(profile: Profile) -> Step:
        described = spec.having(profile.fields, f"profile {profile.name}")
        predicted = predicted_bytes(as_filled(described, options.timesteps), python)
        need = Need.of(predicted, cap_bytes=options.cap_bytes, gpus=_gpus(described))
        work = BenchWork(spec=portable(spec), profile=profile, options=options, python=python)
        return Step(work=work, need=need, predicted=predicted)

    items = ((profile.name, step(profile)) for profile in profiles)
    with closing(dispatch(ray, say).run(items)) as run:
        for ended in run:
            done: Benched = ended.result or Benched(
                profile=by_name[ended.key], point=point_of(ended, None, {"profile": ended.key})
            )
            yield replace(done, point=point_of(ended, done.point, done.point.values))


def point_of(ended: Ended, point: Point | None, values: Any) -> Point:
    """The point of what ended: where it ran, and what was lost before; a fault is a row too."""
    if point is None:
        fault = ended.fault
        assert fault is not None
        return Point(
            values=values,
            status=fault.status,
            peak_bytes=None,
            note=fault.note,
            node=ended.node,
            predicted=ended.predicted,
        )
    if ended.fault is not None or not ended.lost:
        return replace(point, node=ended.node)
    before = f"measured again after {ended.lost[-1]}"
    return replace(point, node=ended.node, note="; ".join(text for text in (point.note, before) if text))


def predicted_bytes(spec: RunSpec, python: str | None) -> PredictedPeak:
    """The closed form of a described run: its peak of RAM."""
    peaks = predict(resolve(spec), read_calibration(python)).peaks()
    top = next(peak for peak in peaks if peak.device == "ram" and peak.is_peak)
    return PredictedPeak.of(top)


def _gpus(spec: RunSpec) -> int:
    return int(resolve(spec).get("device") == "cuda")


def dispatch(ray: Any, say: Say) -> Dispatch:
    """What runs items there."""
    if not streams(ray):
        return Dispatch(ray, say, streams=False)
    return Dispatch(ray, say, head=ray.get_runtime_context().gcs_address)


def streams(ray: Any) -> bool:
    """Whether tasks can say more than one thing: not through Ray's client (``ray://``)."""
    try:
        return not ray.util.client.ray.is_connected()
    except AttributeError:
        return True
