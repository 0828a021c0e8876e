"""``rlmem fit``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import (
    Limits,
    Output,
    budget_options,
    in_typed_unit,
    output_options,
    set_option,
)

if TYPE_CHECKING:
    from rlmem.documents.fit import FitDocument

#: Of answers that are no fit.
_EXIT_CODES = {"no": 1, "unknown": 4, "grows": 5}


@click.command("fit")
@click.argument("target", shell_complete=completion.target)
@click.argument("args", nargs=-1, type=click.UNPROCESSED, metavar="[-- SCRIPT ARGS]", shell_complete=completion.files)
@budget_options
@set_option
@click.option(
    "--keep",
    "kept",
    metavar="FIELD",
    multiple=True,
    help="A field to leave alone, such as buffer_size; repeatable, or a,b.",
)
@click.option("--lossless", is_flag=True, help="Only steps under which the learner sees the same numbers.")
@click.option(
    "--max-slowdown",
    type=click.FloatRange(min=1),
    metavar="FACTOR",
    help="The most training may slow down, such as 1.2; steps of unknown cost are left out.",
)
@click.option(
    "--apply", "apply_", is_flag=True, help="Write the edited script; the old one is kept beside it as .orig."
)
@click.option(
    "--verify", is_flag=True, help="Measure before and after in fresh processes; predicted against real saving."
)
@click.option("--diff", "only_diff", is_flag=True, help="Print the diff and nothing else.")
@click.option("--timeout", type=click.FloatRange(min=5), metavar="SECONDS", help="Time a dry run may take [27].")
@click.option(
    "--cap",
    metavar="SIZE",
    callback=in_typed_unit,
    help="Memory a dry run may take before it is ended. Default: what is available.",
)
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    limits: Limits,
    python: str | None,
    sets: tuple[str, ...],
    kept: tuple[str, ...],
    lossless: bool,
    max_slowdown: float | None,
    apply_: bool,
    verify: bool,
    only_diff: bool,
    timeout: float | None,
    cap: str | None,
    out: Output,
) -> int:
    """The smallest change that makes a run fit: lossless steps first, then those that cost speed, then learning.

    TARGET is a preset, a run file, your training script (with its ARGS after '--'), a factory package.module:function or an
    RL Zoo entry zoo:ALGO/ENV. A script is run as 'rlmem plan' runs it: in a process of its own, under a cap, up to learn()
    and through a few updates; files it wrote are put back. With a loop of its own it is run again, edited, for each
    candidate. What a step saves is the difference of two plans.

    \b
    Examples:
      rlmem fit pidog-sac --ram 12GB
      rlmem fit pidog-sac --ram 8GB --keep buffer_size --lossless
      rlmem fit train.py --ram 16GB
      rlmem fit train.py --ram 16GB --apply --verify -- --env Hopper-v5
      rlmem fit train.py --ram 16GB --diff | git apply
      rlmem fit zoo:dqn/PongNoFrameskip-v4 --ram 8GB --json

    Exits 0 when the run fits, as it is or with the steps shown; 1 when nothing makes it fit, or when --verify saw it fail; 4 when
    there is a limit and no figure to hold against it (VRAM of a loop of its own); 5 when the run leaks.
    """
    from rlmem.app.fit import FitRequest
    from rlmem.app.fit import fit as fit_run
    from rlmem.report.progress import spinner
    from rlmem.sources.target import parse_target

    request = FitRequest(
        target=parse_target(target, args, sets=sets, python=python),
        budget=limits.budget(),
        keep=kept,
        lossless=lossless,
        max_slowdown=max_slowdown,
        apply=apply_,
        verify=verify,
        timeout_s=timeout,
        cap=cap or None,
    )
    document = fit_run(request, progress=spinner, on_write=_say_written)
    if apply_ and document.applied is None and document.write.kind == "diff":
        print("rlmem: nothing was written: the run does not fit with these steps", file=sys.stderr)
    if only_diff:
        _emit_diff(document, out)
    else:
        out.show(document)
    failed = document.verified is not None and not document.verified.took_effect
    return 1 if failed else _EXIT_CODES.get(document.status, 0)


def _say_written(path: Path, backup: Path) -> None:
    print(f"wrote {path}; the old one is {backup}", file=sys.stderr)


def _emit_diff(document: FitDocument, out: Output) -> None:
    """The diff alone; what it lacks is said on standard error."""
    if document.write.kind == "diff" and document.write.text:
        out.write(document.write.text)
    for text in document.write.by_hand:
        print(f"rlmem: by hand: {text}", file=sys.stderr)
    if not document.steps:
        whys = {
            "already": "it fits as it is",
            "grows": "it leaks, and no setting makes a leak fit",
            "unknown": "RAM fits as it is",
        }
        print(f"rlmem: no diff: {whys.get(document.status, 'no step that is allowed helps')}", file=sys.stderr)
