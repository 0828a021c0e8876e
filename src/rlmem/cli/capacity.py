"""``rlmem capacity``."""

from __future__ import annotations

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
from rlmem.errors import UsageError


@click.command("capacity")
@click.argument("target", shell_complete=completion.target)
@click.argument("args", nargs=-1, shell_complete=completion.files)
@click.option("--vary", required=True, metavar="PATH[=A,B,C]", help="The count to turn; with values, a table of them.")
@click.option(
    "--machines",
    metavar="LIST",
    shell_complete=completion.machines,
    callback=in_typed_unit,
    help="Sizes or machine names: 8GB,16GB,rtx-4090. A bare size limits the learner's device.",
)
@budget_options
@set_option
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    vary: str,
    machines: str | None,
    limits: Limits,
    python: str | None,
    sets: tuple[str, ...],
    out: Output,
) -> int:
    """How far a knob can be turned: the largest value that fits each machine, or a table of values.

    TARGET is what 'rlmem plan' takes. A script (with its ARGS after '--') is tried once, and its description is planned changed.

    \b
    Examples:
      rlmem capacity train.py --vary buffer_size --machines 16GB,32GB -- --env Hopper-v5
      rlmem capacity drone-swarm --vary agents --machines 8GB,16GB,24GB,80GB
      rlmem capacity pidog-sac --vary buffer_size=200k,300k,400k,500k,1M --ram 30GB
      rlmem capacity pidog-sac --vary buffer_size --machines laptop-16gb,rtx-4090 --json

    Two figures per machine: the largest value whose expected peak fits, and the largest whose upper bound does.
    """
    from rlmem.app.capacity import CapacityRequest
    from rlmem.app.capacity import capacity as turn
    from rlmem.report.progress import spinner
    from rlmem.sources.overrides import parse_vary
    from rlmem.sources.target import parse_target

    path, values = parse_vary(vary)
    names = None if machines is None else tuple(name.strip() for name in machines.split(",") if name.strip())
    if names is not None and any(limits.words):
        raise UsageError("--machines and --ram/--vram/--machine contradict each other; use one")
    if names == ():
        raise UsageError("--machines: give sizes or names, for example --machines 8GB,16GB")
    request = CapacityRequest(
        target=parse_target(target, args, sets=sets, python=python),
        path=path,
        values=values,
        budget=None if names else limits.budget(),
        machines=names or (),
    )
    out.show(turn(request, spinner))
    return 0
