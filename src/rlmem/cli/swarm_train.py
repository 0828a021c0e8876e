"""``python -m rlmem.swarm train``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli.swarm_options import PROGRAM, count, given_settings, settings_options

if TYPE_CHECKING:
    from rlmem.app.swarm import Trained, TrainRequest
    from rlmem.documents.swarm import SwarmPlanPart, SwarmSettingsPart
    from rlmem.swarm.training import Ended, Telling, Training

STOPPING = "stopping after this chunk; Ctrl-C again ends at once and keeps only what is on disk already"
_FILE = click.Path(path_type=Path)


@click.command("train")
@settings_options
@click.option("--vram", metavar="SIZE", help="Memory of the GPU the run may take, such as 16GB; torch is held to it.")
@click.option(
    "--ram", metavar="SIZE", help="Memory a run on the CPU is planned to take. Default: what may be used here."
)
@click.option(
    "--checkpoint",
    type=_FILE,
    metavar="PATH",
    help="Keep the run here, at its end and when it is stopped. Default: only when it is stopped, in swarm.pt.",
)
@click.option("--no-checkpoint", is_flag=True, help="Keep nothing, even when the run is stopped.")
@click.option("--every", callback=count, metavar="N", help="Keep the run every N iterations, too.")
@click.option("--resume", type=_FILE, metavar="PATH", help="Go on with a run that was kept, with its settings.")
@click.option("--curve", type=_FILE, metavar="FILE", help="Write the reward over the iterations (.csv or .svg).")
@click.option("--log", type=_FILE, metavar="FILE", help="Write a line of JSON an iteration.")
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON document at the end, and nothing else on standard output."
)
@click.option("--quiet", is_flag=True, help="No plan, no progress, no table; errors and --json only.")
def command(
    ram: str | None,
    vram: str | None,
    checkpoint: Path | None,
    no_checkpoint: bool,
    every: int | None,
    resume: Path | None,
    curve: Path | None,
    log: Path | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Train a swarm: PPO with an autoencoder over each drone's IMU history.

    What it will need is planned first, and a chunk chosen that keeps it under the cap. Ctrl-C keeps the last whole
    iteration; the run goes on with --resume, on the CPU bit for bit as if it had not been stopped.

    \b
    Examples:
      python -m rlmem.swarm train --agents 20_000 --iterations 50 --curve reward.svg
      python -m rlmem.swarm train --agents 1M --device cuda --vram 16GB --every 5
      python -m rlmem.swarm train --agents 500 --minibatches 1 --rung naive
      python -m rlmem.swarm train --resume swarm.pt --iterations 100

    Exits 1 when the run does not fit, 3 when a number stopped being finite, 130 after Ctrl-C; in each case what was
    learnt before is kept.
    """
    from rlmem.app.swarm import TrainCallbacks, TrainRequest, train_swarm

    request = TrainRequest(
        settings=given_settings(options),
        ram=ram,
        vram=vram,
        checkpoint=checkpoint,
        no_checkpoint=no_checkpoint,
        every=every,
        resume=resume,
        curve=curve,
        log=log,
    )
    callbacks = TrainCallbacks(
        plan=_silent if quiet or as_json else _show_plan,
        note=_silent if quiet else _note,
        telling=_quietly if quiet else _telling,
        notice="" if quiet or not sys.stderr.isatty() else STOPPING,
    )
    trained = train_swarm(request, callbacks)
    _show(request, trained, as_json=as_json, quiet=quiet)
    if trained.training is None or trained.ended is None:
        return 0
    if trained.ended.status != "done":
        print(f"rlmem.swarm: {_stopped(request, trained.training, trained.ended)}", file=sys.stderr)
    if curve is not None:
        _draw(curve, trained)
    return trained.ended.exit_code


def _silent(*_: object) -> None:
    """Say nothing."""


def _note(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)


def _show_plan(settings: SwarmSettingsPart, plan: SwarmPlanPart) -> None:
    from rlmem.report.render import render_view
    from rlmem.report.swarm import plan_view

    sys.stdout.write(render_view(plan, lambda shown: plan_view(settings, shown), "text", None))
    sys.stdout.flush()


@contextmanager
def _telling(iterations: int, first: int) -> Iterator[Telling]:
    from rlmem.report.progress import iterations as progress
    from rlmem.report.swarm import Shown

    with progress(iterations, "training", done=first) as lines:
        yield Shown(lines, live=sys.stderr.isatty())


@contextmanager
def _quietly(_iterations: int, _first: int) -> Iterator[Telling]:
    from rlmem.report.swarm import Silent

    yield Silent()


def _show(request: TrainRequest, trained: Trained, *, as_json: bool, quiet: bool) -> None:
    """The document or the table; of a run that was done already, how to go on."""
    from rlmem.documents.contract import to_json
    from rlmem.report.render import render_view
    from rlmem.report.swarm import train_view

    if as_json:
        print(to_json(trained.document))
    elif quiet:
        return
    elif trained.training is None:
        done, of = trained.document.resumed_at, trained.settings.iterations
        print(
            f"{request.resume}: {done} of {of} iterations are done, nothing is left to do; "
            f"to go on, pass --iterations {2 * done} or so"
        )
    else:
        plain = (sys.stdout.encoding or "").lower().replace("-", "") not in {"utf8", "utf16"}
        text = render_view(trained.document, lambda shown: train_view(shown, plain=plain), "text", None)
        sys.stdout.write(f"\n{text}")


def _draw(path: Path, trained: Trained) -> None:
    from rlmem.cli.common import write_whole
    from rlmem.swarm.curve import draw_curve

    settings, training = trained.settings, trained.training
    rows = training.rows if training is not None else ()
    title = f"Mean reward, {settings.agents:,} agents, {settings.rung}, seed {settings.seed}"
    write_whole(path, draw_curve(path, rows, title))


def _stopped(request: TrainRequest, training: Training, ended: Ended) -> str:
    """What stopped it, what is kept, and how to go on."""
    done = training.done
    what = {
        "interrupted": f"interrupted ({ended.text})",
        "not-finite": ended.text,
        "out-of-memory": f"out of memory in iteration {done + 1}: {ended.text}",
    }[ended.status]
    if not ended.kept:
        return (
            f"{what}; {'nothing was kept' if training.path is None else 'what came after the last checkpoint is lost'}"
        )
    words = [*PROGRAM.split(), "train", "--resume", str(training.path)]
    for option in ("ram", "vram", "every", "curve", "log"):
        value = getattr(request, option)
        words += [f"--{option}", str(value)] if value is not None else []
    if ended.status == "out-of-memory":
        words += ["--chunk", str(max(1, training.settings.chunk // 2))]
    how = "look into it" if ended.status == "not-finite" else "go on"
    return f"{what}; the run after iteration {done} is in {training.path}; {how} with: {shlex.join(words)}"
