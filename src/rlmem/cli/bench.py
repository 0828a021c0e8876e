"""``rlmem bench``."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, emit, in_typed_unit, output_options, set_option
from rlmem.cli.on_ray import on_options, say
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.app.clusters import ClusterOptions


@click.command("bench")
@click.argument("target", shell_complete=completion.target)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT ARGS]", shell_complete=completion.files)
@click.option("--timesteps", required=True, metavar="N", help="Environment steps to train each profile, such as 25k.")
@click.option(
    "--profiles",
    "choice",
    default="all",
    show_default=True,
    metavar="all|NAME,NAME|FILE",
    help="Built-in profiles, or a YAML file that maps names to settings.",
)
@click.option("--env", "env_id", metavar="ID", help="A Gymnasium environment to train on, or 'random' for noise.")
@click.option(
    "--ram",
    metavar="SIZE",
    callback=in_typed_unit,
    help="Judge full buffers against this. Default: what may really be used here.",
)
@click.option(
    "--machine",
    metavar="NAME",
    shell_complete=completion.machine,
    help="Judge full buffers against a machine ('rlmem machines').",
)
@click.option(
    "--cap",
    metavar="SIZE",
    callback=in_typed_unit,
    help="End a profile that needs more. Default: what may really be used, minus 10 %.",
)
@click.option("--timeout", type=click.FloatRange(min=1), metavar="SECONDS", help="End a profile that takes longer.")
@click.option(
    "--python",
    metavar="PATH",
    shell_complete=completion.files,
    help="The run's own interpreter, which need not have rlmem.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of environment and networks."
)
@click.option("--fresh", is_flag=True, help="Train all profiles, also those an interrupted run has.")
@on_options
@click.option("--csv", type=click.Path(path_type=Path), metavar="FILE", help="Write the rows as CSV too.")
@set_option
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    timesteps: str,
    choice: str,
    env_id: str | None,
    ram: str | None,
    machine: str | None,
    cap: str | None,
    timeout: float | None,
    python: str | None,
    seed: int,
    fresh: bool,
    cluster: ClusterOptions | None,
    csv: Path | None,
    sets: tuple[str, ...],
    out: Output,
) -> int:
    """Train named profiles of an SB3 run, each in a fresh process: steps/s, mean reward, peak memory.

    TARGET is a preset, a run file, or a script with an SB3 model (its ARGS after '--'), which is tried for a few seconds to be
    described. The pidog presets train on Gymnasium's Ant-v5, a quadruped with eight actuators: the
    vector is its 27 positions and velocities with zeros after them, the image what MuJoCo renders (zeros where it cannot).
    Other runs train on --env, or on noise of the described shapes.

    \b
    Examples:
      rlmem bench pidog-sac --timesteps 25000 --profiles all
      rlmem bench pidog-sac --timesteps 2k --profiles fast,balanced --ram 30GB
      rlmem bench run.yaml --timesteps 10k --env Hopper-v5 --profiles mine.yaml
      rlmem bench pidog-sac --timesteps 25k --on ray --address head:6379

    A profile file maps names to settings: fields of the run ('rlmem schema run'), learning_rate, train_freq, gamma, tau …

    With --on ray, profiles are tasks of a Ray cluster, at once as many as its nodes have CPUs and memory for: peaks are the same,
    speeds are of profiles that share a node.

    Exits 1 when a profile did not end well. 130 after Ctrl-C; finished profiles are kept ('rlmem runs'), and the same command goes
    on with the others.
    """
    from rlmem.app.bench import BenchInterruptedError, BenchRequest, bench
    from rlmem.budget import read_size
    from rlmem.cli.bench_progress import show_progress
    from rlmem.report.bench import bench_csv
    from rlmem.report.progress import spinner
    from rlmem.sources.profiles import load_profiles
    from rlmem.sources.target import parse_target
    from rlmem.units import parse_count

    steps = _positive(parse_count(timesteps))
    profiles = load_profiles(choice)
    request = BenchRequest(
        target=parse_target(target, args, sets=sets, python=python),
        timesteps=steps,
        profiles=profiles,
        env=env_id,
        ram=ram,
        machine=machine,
        cap_bytes=None if cap is None else read_size(cap, "--cap"),
        timeout_s=timeout,
        seed=seed,
        fresh=fresh,
        cluster=cluster,
        command=("rlmem", *sys.argv[1:]),
    )
    interrupted = None
    try:
        document = bench(request, partial(show_progress, request), progress=spinner, say=say)
    except BenchInterruptedError as error:
        if error.document is None:
            print("rlmem: interrupted; no profile was finished", file=sys.stderr)
            return 130
        interrupted, document = error, error.document
    if csv is not None:
        emit(bench_csv(document), csv)
    out.show(document)
    if interrupted is not None:
        kept = f"{len(document.profiles)} of {len(profiles)} profiles are kept in run {interrupted.run}"
        print(f"rlmem: interrupted; {kept}; the same command goes on", file=sys.stderr)
        return 130
    return 0 if document.is_ok else 1


def _positive(steps: int) -> int:
    if steps < 1:
        raise UsageError("--timesteps: give at least one step, such as 25k")
    return steps
