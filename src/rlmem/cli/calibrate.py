"""``rlmem calibrate``."""

from __future__ import annotations

import sys

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, output_options


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
def command(python: str | None, extra: tuple[str, ...], forget: bool, out: Output) -> int:
    """Measure the runtime constants of an environment: interpreter, imports, workers, threads, CUDA context.

    Takes some 15 seconds, in fresh processes; the result is cached per environment and used by every later plan.

    \b
    Examples:
      rlmem calibrate
      rlmem calibrate --python ~/envs/train/bin/python --import pyboy
      rlmem calibrate --forget
    """
    from rlmem.app.calibrate import CalibrateRequest, calibrate, forget_calibration

    if forget:
        out.write(f"{forget_calibration(python)}: shipped constants are used from now on")
        return 0
    progress = sys.stderr.isatty()

    def say(step: str) -> None:
        if progress:
            print(f"\r\033[Kmeasuring {step} …", end="", file=sys.stderr, flush=True)

    document = calibrate(CalibrateRequest(python=python, packages=extra), say=say)
    if progress:
        print("\r\033[K", end="", file=sys.stderr)
    out.show(document)
    return 0
