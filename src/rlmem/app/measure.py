"""Measure a target: one fresh process a point, kept as they come, and one document of all of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from rlmem.app.clusters import ClusterOptions
from rlmem.app.points import measure_point
from rlmem.app.runs import stored_sweep
from rlmem.budget import cap_bytes, read_cap
from rlmem.core.points import Axis, PointLimits
from rlmem.core.target import Target
from rlmem.documents.sweep import SweepDocument
from rlmem.errors import SpecError, UsageError
from rlmem.frameworks import resolve
from rlmem.runner.store import open_store
from rlmem.runner.sweep import Done, Running, Sweep
from rlmem.sources import read_description

#: Takes the sweep that starts, and opens a callback that is called with each measured point.
Watch = Callable[[Running], AbstractContextManager[Callable[[Done], None]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest:
    """A target to measure and the values to vary.

    Attributes:
        target: a described run, a script, a factory, an RL Zoo entry or an RLlib configuration.
        axes: values to try; every combination of them is a point.
        repeat: how often each point is measured.
        cap: a point that needs more is ended, in bytes or as text such as ``8GB``; ``None`` is most of what may really be
            used where it runs.
        timeout_s: a point that takes longer is ended.
        fresh: ignore stored points and measure every point again.
        cluster: where points are measured, several at once; None is one after another on this machine.
        command: the command line that is stored with the run.
    """

    target: Target
    axes: tuple[Axis, ...] = ()
    repeat: int = 1
    cap: int | str | None = None
    timeout_s: float | None = 900.0
    fresh: bool = False
    cluster: ClusterOptions | None = None
    command: tuple[str, ...] = field(default=())


class MeasureInterruptedError(KeyboardInterrupt):
    """A sweep was interrupted; the points it had are kept, and the same request goes on with the others."""

    def __init__(self, run: str, kept: int, total: int) -> None:
        super().__init__(run)
        self.run, self.kept, self.total = run, kept, total


@contextmanager
def unwatched(running: Running) -> Iterator[Callable[[Done], None]]:
    """Watch a sweep without saying anything."""
    yield lambda done: None


def measure(
    request: MeasureRequest, watch: Watch = unwatched, say: Callable[[str], None] = lambda text: None
) -> SweepDocument:
    """Measure what a target really needs, one fresh process a point.

    Args:
        request: the target and the values to vary.
        watch: opens a callback that is called with each measured point.
        say: called with each status line of a cluster.

    Returns:
        Every point beside its plan, also those that did not end well, and those an earlier run has.

    Raises:
        UsageError: the target does not take what is asked for.
        AnalysisError: it cannot be run here, or the store cannot be written.
        MeasureInterruptedError: Ctrl-C; what was measured is kept.
    """
    sweep = _sweep(request)
    with open_store(write=True) as store, ExitStack() as stack:
        running = Running(
            sweep,
            measure_point,
            store,
            command=request.command,
            fresh=request.fresh,
            **(_on_cluster(stack, request, sweep, say) if request.cluster else {}),
        )
        try:
            with watch(running) as tell, closing(running.points()) as points:
                for done in points:
                    if not done.is_known:
                        tell(done)
        except KeyboardInterrupt:
            kept = len(store.points(running.run.id))
            raise MeasureInterruptedError(running.run.id, kept, len(sweep.jobs)) from None
        return stored_sweep(store, running.finish())


def _sweep(request: MeasureRequest) -> Sweep:
    target, remote = request.target, request.cluster is not None
    cap = read_cap(request.cap)
    target = replace(target, python=_interpreter(target, remote=remote))
    limits = PointLimits(
        cap_bytes=cap_bytes(None) if cap is None and not remote else cap,  # there, what is free on each node
        time_limit_s=request.timeout_s,
    )
    sweep = Sweep(target=target, axes=request.axes, repeat=request.repeat, limits=limits)
    _check_axes(sweep)
    return sweep


def _on_cluster(stack: ExitStack, request: MeasureRequest, sweep: Sweep, say: Callable[[str], None]) -> dict[str, Any]:
    """Points as tasks of a cluster, for as long as the stack is open."""
    from rlmem.ray.sweeps import cluster, cluster_facts, measuring

    assert request.cluster is not None
    ray = stack.enter_context(cluster(request.cluster.address))
    facts = cluster_facts(ray)
    say(f"measuring on {facts['system']}")
    named = None if request.target.python is None else sweep.target.python
    return {"execute": measuring(ray, sweep, named, say), "machine": facts}


def _interpreter(target: Target, *, remote: bool = False) -> str | None:
    """The interpreter named, or the one a script is plainly meant for; ``None`` leaves it to the program."""
    from rlmem.trace.rllib import find_config
    from rlmem.trace.target import find_runnable

    python = target.python
    if target.kind == "rllib":
        if remote:
            raise UsageError(
                f"{target.text}: an RLlib configuration starts a Ray of its own; measure it without --on ray"
            )
        if target.args:
            raise UsageError(f"{target.text}: only a script takes arguments after '--'; use --set NAME=VALUE")
        return find_config(target)[1]
    found = None if python is None else shutil.which(os.path.expanduser(python))
    if found is None and remote:
        found = python  # it is a path on the nodes
    if target.is_executable:
        plain = find_runnable(replace(target, python=None) if remote else target).python
        return found if remote and found else plain
    if target.args:
        raise UsageError(f"{target.text}: only a script takes arguments after '--'; use --set PATH=VALUE")
    if python is not None and found is None:
        raise UsageError(f"--python {python}: no such interpreter")
    return found


def _check_axes(sweep: Sweep) -> None:
    """A described run must know the axes and take every value; a script's arguments are its own business."""
    if sweep.target.is_executable or sweep.target.kind == "rllib":
        return
    spec = read_description(sweep.target)
    try:
        for axis in sweep.axes:
            for value in axis.values:
                resolve(spec.having({axis.name: value}, "--vary"))
    except SpecError as error:
        raise error.located("--vary") from None
