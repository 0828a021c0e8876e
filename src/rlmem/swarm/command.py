"""``python -m rlmem.swarm train``."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.errors import UsageError
from rlmem.swarm.options import PROGRAM, count, given_settings, settings_options

if TYPE_CHECKING:
    from rlmem.plan import Budget
    from rlmem.swarm.checkpoint import Checkpoint
    from rlmem.swarm.chunking import Fitted
    from rlmem.swarm.settings import Settings
    from rlmem.swarm.training import Ended, Telling, Training

STOPPING = "stopping after this chunk; Ctrl-C again ends at once and keeps only what is on disk already"
_FILE = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the command line asks for, beside the settings."""

    ram: str | None
    vram: str | None
    checkpoint: Path | None
    no_checkpoint: bool
    every: int | None
    resume: Path | None
    curve: Path | None
    log: Path | None
    as_json: bool
    quiet: bool


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
    asked = Asked(
        ram=ram,
        vram=vram,
        checkpoint=checkpoint,
        no_checkpoint=no_checkpoint,
        every=every,
        resume=resume,
        curve=curve,
        log=log,
        as_json=as_json,
        quiet=quiet,
    )
    _check(asked)
    given = given_settings(options)
    auto = given.get("chunk") == "auto"
    if auto:
        del given["chunk"]
    kept, settings = _settings(asked, given)
    if kept is not None and kept.iteration >= settings.iterations:
        return _finished(asked, kept, settings)
    fixed = settings.chunk if "chunk" in given or (kept is not None and not auto) else None
    return _train(asked, kept, settings, fixed)


def _check(asked: Asked) -> None:
    """What can be told to be wrong without anything else."""
    from rlmem.swarm.curve import check_curve

    if asked.no_checkpoint and (asked.checkpoint or asked.every is not None):
        raise UsageError("--no-checkpoint contradicts --checkpoint and --every; use one")
    if asked.every is not None and asked.every < 1:
        raise UsageError(f"--every {asked.every}: give at least 1")
    if asked.curve is not None:
        check_curve(asked.curve)


def _settings(asked: Asked, given: Mapping[str, Any]) -> tuple[Checkpoint | None, Settings]:
    """The settings asked for, or those of a checkpoint with what may change; caps must be for the device."""
    from rlmem.swarm import devices
    from rlmem.swarm.checkpoint import load, merged
    from rlmem.swarm.settings import Settings

    if "device" in given:
        devices.check_name(given["device"])
    kept = None
    if asked.resume is not None:
        devices.need_torch()
        kept = load(asked.resume)
        settings = merged(asked.resume, kept.settings, given)
    else:
        settings = Settings(**given)
    on_gpu = settings.device.startswith("cuda")
    if asked.vram and not on_gpu:
        raise UsageError("--vram is for --device cuda; on the CPU, --ram is what the run is planned against")
    if asked.ram and on_gpu:
        raise UsageError(f"--ram is for --device cpu; with {settings.device}, --vram is what the run is held to")
    return kept, settings


def _finished(asked: Asked, kept: Checkpoint, settings: Settings) -> int:
    text = (
        f"{asked.resume}: {kept.iteration} of {settings.iterations} iterations are done, nothing is left to do; "
        f"to go on, pass --iterations {2 * kept.iteration} or so"
    )
    if asked.as_json:
        from rlmem.report.swarm import SCHEMA

        body = {"schema": SCHEMA, "status": "nothing-to-do", "error": None, "settings": asdict(settings)}
        print(json.dumps({**body, "iterations": [dict(row) for row in kept.rows]}, indent=2))
    elif not asked.quiet:
        print(text)
    return 0


def _train(asked: Asked, kept: Checkpoint | None, settings: Settings, chunk: int | None) -> int:
    from rlmem.measure.calibration import read_calibration
    from rlmem.planner import Planner
    from rlmem.swarm import devices
    from rlmem.swarm.chunking import choose_chunk
    from rlmem.swarm.training import log_to

    devices.need_torch()
    device = devices.find_device(settings.device)
    place = _place(asked)
    fitted = choose_chunk(settings, Planner(_budget(asked, settings, device), read_calibration()), chunk)
    if not asked.quiet and not asked.as_json:
        _show_plan(fitted)
    training = _build(asked, kept, fitted, place)
    first = training.run.iteration
    with log_to(asked.log, append=kept is not None) as log, _telling(asked, fitted.settings, first) as telling:
        ended = training.train(telling, log, keep_last=asked.checkpoint is not None or asked.every is not None)
    return _report(asked, fitted, training, ended, first, devices.peak_bytes(device))


def _place(asked: Asked) -> Path | None:
    """Where the run is kept; tried now, so that it does not fail after hours."""
    from rlmem.swarm.checkpoint import check_writable, free_name, in_folder

    if asked.no_checkpoint:
        return None
    if asked.checkpoint is not None:
        return check_writable(asked.checkpoint)
    return check_writable(in_folder(asked.resume) if asked.resume is not None else free_name(Path()))


def _budget(asked: Asked, settings: Settings, device: Any) -> Budget:
    """What the run may take: as asked, else what is free where it runs."""
    from dataclasses import replace

    from rlmem.budget import free_here, make_budget, read_size
    from rlmem.swarm import devices

    if not settings.device.startswith("cuda"):
        given = make_budget(ram=asked.ram) if asked.ram else free_here()
        return replace(given, vram_bytes=None, vram_source="")
    if asked.vram is not None:
        devices.cap_vram(device, read_size(asked.vram, "--vram"))
        return make_budget(vram=asked.vram)
    free, _ = devices.free_vram(device)
    return replace(free_here(), vram_bytes=free, vram_source=f"free on {device}")


def _show_plan(fitted: Fitted) -> None:
    from rlmem.report.render import render_view
    from rlmem.report.swarm import plan_part, plan_view

    document = {"settings": asdict(fitted.settings), "plan": plan_part(fitted)}
    sys.stdout.write(render_view(document, plan_view, "text", None))
    sys.stdout.flush()


def _build(asked: Asked, kept: Checkpoint | None, fitted: Fitted, place: Path | None) -> Training:
    """The run, where it was left off if it is resumed."""
    import torch

    from rlmem.swarm.checkpoint import in_folder
    from rlmem.swarm.chunking import DoesNotFitError
    from rlmem.swarm.run import SwarmRun
    from rlmem.swarm.training import Training, ran_out

    try:
        run = SwarmRun(fitted.settings)
    except (RuntimeError, MemoryError) as error:
        if not ran_out(error):
            raise
        raise DoesNotFitError(f"out of memory before the first iteration: {str(error).splitlines()[0]}") from None
    on_disk = False
    if kept is not None and asked.resume is not None:
        try:
            run.load(dict(kept.state))
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"{asked.resume}: does not hold a run of these settings ({error})") from None
        on_disk = place == in_folder(asked.resume)
    threads = torch.get_num_threads()
    if kept is not None and not asked.quiet:
        for text in _differences(kept, fitted.settings, threads, str(torch.__version__)):
            print(f"note: {text}", file=sys.stderr)
    return Training(
        run,
        fitted.settings,
        rows=kept.rows if kept is not None else (),
        path=place,
        every=asked.every,
        on_disk=on_disk,
        threads=threads,
        torch_version=str(torch.__version__),
        is_finite=lambda: all(bool(values.isfinite().all()) for net in run.nets.modules for values in net.parameters()),
        notice="" if asked.quiet or not sys.stderr.isatty() else STOPPING,
    )


def _differences(kept: Checkpoint, settings: Settings, threads: int, version: str) -> Iterator[str]:
    """Why the run may differ in the last bits from one that was never stopped."""
    pairs = (
        ("chunk", kept.settings.chunk, settings.chunk),
        ("device", kept.settings.device, settings.device),
        ("threads", kept.threads, threads if settings.device == "cpu" else kept.threads),
        ("torch", kept.torch, version),
    )
    for name, before, now in pairs:
        if before != now:
            yield f"{name} was {before} and is {now}: sums may differ in their last bits from a run that was not stopped"


@contextmanager
def _telling(asked: Asked, settings: Settings, first: int) -> Iterator[Telling]:
    from rlmem.report.progress import iterations
    from rlmem.report.swarm import Shown, Silent

    with nullcontext() if asked.quiet else iterations(settings.iterations, "training", done=first) as lines:
        yield Silent() if lines is None else Shown(lines, live=sys.stderr.isatty())


def _report(
    asked: Asked, fitted: Fitted, training: Training, ended: Ended, first: int, peak: tuple[int | None, str]
) -> int:
    """The curve, the document or the table, and for a run that was stopped how to go on."""
    from rlmem.cli.common import write_whole
    from rlmem.report.render import render_view
    from rlmem.report.swarm import train_document, train_view
    from rlmem.swarm.curve import draw_curve

    settings = fitted.settings
    files = {
        "checkpoint": str(training.path) if ended.kept else None,
        "curve": str(asked.curve) if asked.curve else None,
        "log": str(asked.log) if asked.log else None,
    }
    error = ended.text or None
    document = train_document(
        fitted, training.rows, first=first, status=ended.status, error=error, peak=peak, files=files
    )
    if asked.as_json:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif not asked.quiet:
        plain = (sys.stdout.encoding or "").lower().replace("-", "") not in {"utf8", "utf16"}
        sys.stdout.write("\n" + render_view(document, lambda found: train_view(found, plain=plain), "text", None))
    if ended.status != "done":
        print(f"rlmem.swarm: {_stopped(asked, training, ended)}", file=sys.stderr)
    if asked.curve is not None:
        title = f"Mean reward, {settings.agents:,} agents, {settings.rung}, seed {settings.seed}"
        write_whole(asked.curve, draw_curve(asked.curve, training.rows, title))
    return ended.exit_code


def _stopped(asked: Asked, training: Training, ended: Ended) -> str:
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
        value = getattr(asked, option)
        words += [f"--{option}", str(value)] if value is not None else []
    if ended.status == "out-of-memory":
        words += ["--chunk", str(max(1, training.settings.chunk // 2))]
    how = "look into it" if ended.status == "not-finite" else "go on"
    return f"{what}; the run after iteration {done} is in {training.path}; {how} with: {shlex.join(words)}"
