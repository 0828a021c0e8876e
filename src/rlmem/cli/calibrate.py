"""``rlmem calibrate``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, output_options


@click.command("calibrate")
@click.option(
    "--python",
    metavar="PATH",
    shell_complete=completion.files,
    help="The environment to measure; default: the one rlmem runs in.",
)
@click.option("--import", "extra", metavar="MODULE", multiple=True, help="Measure a further package; repeatable.")
@click.option("--forget", is_flag=True, help="Drop this environment's calibration and use the shipped constants.")
@output_options
def command(
    python: str | None, extra: tuple[str, ...], forget: bool, as_json: bool, format_: str | None, output: Path | None
) -> int:
    """Measure the runtime constants of an environment: interpreter, imports, workers, threads, CUDA context.

    Takes some 15 seconds, in fresh processes; the result is cached per environment and used by every later plan.

    \b
    Examples:
      rlmem calibrate
      rlmem calibrate --python ~/envs/train/bin/python --import pyboy
      rlmem calibrate --forget
    """
    from rlmem.app.calibrate import CalibrateRequest, calibrate, forget_calibration
    from rlmem.report.calibration import calibration_view
    from rlmem.report.render import render_view

    wanted = chosen_format(format_, output, as_json=as_json)
    if forget:
        emit(f"{forget_calibration(python)}: shipped constants are used from now on", output)
        return 0
    progress = sys.stderr.isatty()

    def say(step: str) -> None:
        if progress:
            print(f"\r\033[Kmeasuring {step} …", end="", file=sys.stderr, flush=True)

    document = calibrate(CalibrateRequest(python=python, packages=extra), say=say)
    if progress:
        print("\r\033[K", end="", file=sys.stderr)
    emit(render_view(document, calibration_view, wanted, output), output)
    return 0
