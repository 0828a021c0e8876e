"""``rlmem measure``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, in_typed_unit, output_options, set_option
from rlmem.cli.on_ray import on_options, say
from rlmem.cli.saved import TableFiles, deliver, export_options

if TYPE_CHECKING:
    from rlmem.app.clusters import ClusterOptions
    from rlmem.runner.sweep import Done, Running


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
    cluster: ClusterOptions | None,
    sets: tuple[str, ...],
    tables: TableFiles,
    out: Output,
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
    from rlmem.app.measure import MeasureInterruptedError, MeasureRequest, measure
    from rlmem.runner.sweep import parse_axes
    from rlmem.sources.target import parse_target

    tables.with_output(out.path).check()
    request = MeasureRequest(
        target=parse_target(target, args, sets=sets, python=python),
        axes=parse_axes(varied),
        repeat=repeat,
        cap=cap,
        timeout_s=timeout,
        fresh=fresh,
        cluster=cluster,
        command=("rlmem", *sys.argv[1:]),
    )
    try:
        document = measure(request, _watch, say)
    except MeasureInterruptedError as interrupted:
        words = shlex.join(request.command)
        kept = f"{interrupted.kept} of {interrupted.total} points are kept in run {interrupted.run}"
        what = kept if interrupted.kept else "no point was finished"
        print(f"rlmem: interrupted; {what}. To go on, give the same command again: {words}", file=sys.stderr)
        return 130
    deliver(document, out, tables)
    return 0 if document.is_ok else 1


@contextmanager
def _watch(running: Running) -> Iterator[Callable[[Done], None]]:
    """Say how far a sweep is: a line a point."""
    from rlmem.report.progress import progress

    _say_known(running)
    with progress(running.left, f"measuring {running.sweep.target.text}") as tell:
        yield lambda done: tell(_line(done))


def _say_known(running: Running) -> None:
    """Say that numbers are not new before anybody takes them for new."""
    if running.known:
        total = len(running.sweep.jobs)
        print(
            f"rlmem: {len(running.known)} of {total} points are known from an earlier run of the same target, arguments and "
            "interpreter; --fresh measures them again",
            file=sys.stderr,
        )


def _line(done: Done) -> str:
    from rlmem.core.points import values_text
    from rlmem.units import format_size

    point = done.point
    where = values_text(point.values) or "peak"
    again = f" (repeat {done.job.repeat + 1})" if done.job.repeat else ""
    size = "" if point.peak_bytes is None else f" {format_size(point.peak_bytes)}"
    ended = "" if point.is_ok else f" {point.status}"
    note = f": {point.note}" if point.note else ""
    node = f" on {point.node}" if point.node else ""
    return f"{where}{again}:{size}{ended} in {point.wall_s:.1f} s{node}{note}"
