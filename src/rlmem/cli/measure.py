"""``rlmem measure``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, in_typed_unit, output_options, set_option
from rlmem.cli.on_ray import check_on, on_options, say
from rlmem.cli.saved import check_export, deliver, export_options
from rlmem.errors import SpecError, UsageError

if TYPE_CHECKING:
    from rlmem.core.target import Target
    from rlmem.runner.sweep import Done, Measure, Running, Sweep


@click.command("measure")
@click.argument("target", shell_complete=completion.target)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT ARGS]", shell_complete=completion.files)
@click.option(
    "--vary",
    "varied",
    metavar="NAME=A,B,C",
    multiple=True,
    help="Values to try, such as 100,1k,1e5 or 100..20k/5; repeatable, for every combination.",
)
@click.option("--repeat", type=click.IntRange(1, 100), default=1, show_default=True, help="Measure each point N times.")
@click.option(
    "--cap",
    metavar="SIZE",
    callback=in_typed_unit,
    help="End a point that needs more, as a row of the table. Default: what may really be used, minus 10 %.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    metavar="SECONDS",
    help="End a point that takes longer.",
)
@click.option(
    "--python",
    metavar="PATH",
    shell_complete=completion.files,
    help="The run's own interpreter, which need not have rlmem.",
)
@click.option("--fresh", is_flag=True, help="Measure points again that an earlier run has.")
@on_options
@set_option
@export_options
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    varied: tuple[str, ...],
    repeat: int,
    cap: str | None,
    timeout: float,
    python: str | None,
    fresh: bool,
    on: str | None,
    address: str | None,
    sets: tuple[str, ...],
    csv: Path | None,
    parquet: Path | None,
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """Measure what a run really needs: one fresh process a point, with a real update in it.

    TARGET is a preset, a run file, a script, 'package.module:factory', 'zoo:algorithm/environment' or 'rllib:FILE.py:NAME', an
    RLlib configuration, which is measured by role on a Ray of its own. Results are kept ('rlmem runs'). A sweep that was
    interrupted goes on where it stopped when the same command is given again; a point measured before is not measured
    again, unless --fresh is given.

    \b
    Examples:
      rlmem measure drone-swarm --vary agents=100,1000,5000,10000,20000 --cap 16GB
      rlmem measure pidog-sac-vector --vary buffer_size=10k,100k,1M --repeat 3
      rlmem measure train.py --vary buffer_size=50k,100k -- --env Hopper-v5
      rlmem measure zoo:sac/Pendulum-v1 --python ~/envs/train/bin/python --csv points.csv
      rlmem measure rllib:my_config.py:config --vary num_env_runners=1,2,4
      rlmem measure zoo:ppo/CartPole-v1 --vary n_envs=1,2,4,8,16 --on ray --address head:6379

    With --on ray, points are tasks of a Ray cluster, at once as many as its nodes have CPUs and memory for (by the plan of each).
    A point lost with its worker or node is measured elsewhere; Ctrl-C cancels what runs there.

    Exits 1 when a point did not end well: out of memory, crashed, killed or out of time. 130 after Ctrl-C.
    """
    from rlmem.app.runs import stored_sweep
    from rlmem.budget import cap_bytes
    from rlmem.points import PointOptions
    from rlmem.report.sweep_view import sweep_view
    from rlmem.runner.store import open_store
    from rlmem.runner.sweep import Running, Sweep, parse_axes
    from rlmem.sources.target import parse_target

    wanted = chosen_format(format_, output, as_json=as_json)
    check_export(output, parquet)
    remote = check_on(on, address)
    asked = parse_target(target, args, sets=sets, python=python)
    options = PointOptions(
        python=_interpreter(asked, remote=remote),
        args=args,
        sets=sets,
        cap_bytes=None if remote and cap is None else cap_bytes(cap),  # there, what is free on each node
        time_limit_s=timeout,
    )
    sweep = Sweep(target=asked, axes=parse_axes(varied), repeat=repeat, options=options)
    _check_axes(sweep)
    with open_store(write=True) as store, ExitStack() as stack:
        elsewhere = _elsewhere(stack, sweep, address, python) if remote else {}
        running = Running(
            sweep, measure_function(asked), store, command=("rlmem", *sys.argv[1:]), fresh=fresh, **elsewhere
        )
        _say_known(running)
        try:
            _run(running)
        except KeyboardInterrupt:
            return _interrupted(running, len(store.points(running.run.id)))
        run = running.finish()
        document = stored_sweep(store, run)
    deliver(document, sweep_view, wanted, output, csv, parquet)
    return 0 if document.is_ok else 1


def measure_function(target: Target) -> Measure:
    """What runs a point."""
    from rlmem.runner import measuring

    return measuring.measure_function(target)


def _elsewhere(stack: ExitStack, sweep: Sweep, address: str | None, python: str | None) -> dict[str, Any]:
    """Points as tasks of a cluster, for as long as the stack is open."""
    from rlmem.ray.sweeps import cluster, cluster_facts, measuring

    ray = stack.enter_context(cluster(address))
    facts = cluster_facts(ray)
    say(f"measuring on {facts['system']}")
    named = None if python is None else sweep.options.python
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
    from rlmem.frameworks import resolve
    from rlmem.sources import read_description

    if sweep.target.is_executable or sweep.target.kind == "rllib":
        return
    spec = read_description(sweep.target)
    try:
        for axis in sweep.axes:
            for value in axis.values:
                resolve(spec.having({axis.name: value}, "--vary"))
    except SpecError as error:
        raise error.located("--vary") from None


def _say_known(running: Running) -> None:
    """Say that numbers are not new before anybody takes them for new."""
    if running.known:
        total = len(running.sweep.jobs)
        print(
            f"rlmem: {len(running.known)} of {total} points are known from an earlier run of the same target, arguments and "
            "interpreter; --fresh measures them again",
            file=sys.stderr,
        )


def _run(running: Running) -> None:
    from rlmem.report.progress import progress

    with progress(running.left, f"measuring {running.sweep.target.text}") as tell, closing(running.points()) as points:
        for done in points:
            if not done.is_known:
                tell(_line(done))


def _line(done: Done) -> str:
    from rlmem.report.sweep_view import label
    from rlmem.units import format_size

    point = done.point
    where = label(point.values) or "peak"
    again = f" (repeat {done.job.repeat + 1})" if done.job.repeat else ""
    size = "" if point.peak_bytes is None else f" {format_size(point.peak_bytes)}"
    ended = "" if point.is_ok else f" {point.status}"
    note = f": {point.note}" if point.note else ""
    node = f" on {point.node}" if point.node else ""
    return f"{where}{again}:{size}{ended} in {point.wall_s:.1f} s{node}{note}"


def _interrupted(running: Running, kept: int) -> int:
    words = shlex.join(("rlmem", *sys.argv[1:]))
    total = len(running.sweep.jobs)
    what = f"{kept} of {total} points are kept in run {running.run.id}" if kept else "no point was finished"
    print(f"rlmem: interrupted; {what}. To go on, give the same command again: {words}", file=sys.stderr)
    return 130
