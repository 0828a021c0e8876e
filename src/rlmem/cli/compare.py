"""``rlmem compare``."""

from __future__ import annotations

import click

from rlmem.cli import completion
from rlmem.cli.common import Limits, Output, budget_options, output_options, set_option
from rlmem.errors import UsageError


@click.command("compare")
@click.argument("left", shell_complete=completion.target_or_run)
@click.argument("right", shell_complete=completion.target_or_run)
@click.argument("args", nargs=-1, shell_complete=completion.files)
@click.option("--set-left", "sets_left", metavar="PATH=VALUE", multiple=True, help="Change a field on the left only.")
@click.option(
    "--set-right", "sets_right", metavar="PATH=VALUE", multiple=True, help="Change a field on the right only."
)
@set_option
@budget_options
@output_options
def command(
    left: str,
    right: str,
    args: tuple[str, ...],
    sets_left: tuple[str, ...],
    sets_right: tuple[str, ...],
    sets: tuple[str, ...],
    limits: Limits,
    python: str | None,
    out: Output,
) -> int:
    """Two runs side by side: what differs, component by component.

    LEFT and RIGHT are each a target to plan (what 'rlmem plan' takes; ARGS after '--' go to scripts on both sides), a stored
    run ('rlmem runs'), named by the start of its id, or a running process, by its number. So a plan can be held against
    what was measured. Two measurements are compared point by point, two recorded runs by owner and by phase, everything
    else line by line at each one's own peak; a plan beside a process is taken in the phase that the process is in.

    \b
    Examples:
      rlmem compare drone-swarm drone-swarm --set-right history=100
      rlmem compare drone-swarm-v0 drone-swarm --set agents=10k
      rlmem compare pyboy-ppo pyboy-ppo --set-left framework.version=2.3.2 --json
      rlmem compare train.py train.py --set-right n_envs=8
      rlmem compare 3f9a 81c0
      rlmem compare train.py 4242
      rlmem compare train.py pid:4242
      rlmem compare 5d20 c4da -o before-and-after.md
    """
    from rlmem.app.compare import CompareRequest, compare
    from rlmem.report.progress import spinner
    from rlmem.sources.target import parse_target

    sides = [
        parse_target(target, args, sets=(*sets, *own), python=python)
        for target, own in ((left, sets_left), (right, sets_right))
    ]
    if args and not any(side.is_executable for side in sides):
        raise UsageError("script arguments are for targets that are run, such as train.py")
    request = CompareRequest(
        left=sides[0],
        right=sides[1],
        labels=(" ".join((left, *sets_left)), " ".join((right, *sets_right))),
        budget=limits.budget(),
    )
    out.show(compare(request, spinner))
    return 0
