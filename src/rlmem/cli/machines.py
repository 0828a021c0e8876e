"""``rlmem machines``."""

from __future__ import annotations

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, output_options
from rlmem.errors import UsageError


@click.command("machines")
@click.argument("name", required=False, shell_complete=completion.machine)
@click.option("--here", "here_", is_flag=True, help="Every memory limit on this process, and its GPUs.")
@output_options
def command(name: str | None, here_: bool, out: Output) -> int:
    """List named machines, show one, or say what this process may use.

    \b
    Examples:
      rlmem machines
      rlmem machines rtx-4090
      rlmem machines --here
    """
    from rlmem.app.machines import limits_here, list_machines

    if here_ and name:
        raise UsageError(f"{name} and --here contradict each other; use one")
    if here_:
        out.show(limits_here())
    else:
        out.show(list_machines(name))
    return 0
