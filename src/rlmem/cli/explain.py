"""``rlmem explain``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlmem.cli.common import chosen_format, emit, output_options
from rlmem.errors import AnalysisError, UsageError

if TYPE_CHECKING:
    from rlmem.measure.processes import Process


@click.command("explain")
@click.argument("pid", type=int, required=False)
@click.option("--name", metavar="TEXT", help="The process whose command holds this text, instead of a number.")
@click.option("--tree/--no-tree", default=True, show_default=True, help="Its children too.")
@click.option(
    "--names/--no-names", default=True, show_default=True, help="Ask the program for the names of its objects."
)
@click.option(
    "--advice/--no-advice", "advised", default=True, show_default=True, help="What the rules say of it and of its run."
)
@click.option("--trim", is_flag=True, help="Call malloc_trim in the program and say what that gave back.")
@click.option(
    "--unsafe-attach",
    is_flag=True,
    help="Without an agent, let gdb start one. It stops the program for a moment and calls into it: it can crash it.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds to wait for an answer.",
)
@output_options
def command(
    pid: int | None,
    name: str | None,
    tree: bool,
    names: bool,
    advised: bool,
    trim: bool,
    unsafe_attach: bool,
    timeout_s: float,
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """Say what holds the memory of a running process, page by page: by object, by class, and what is left.

    Names of objects come from an agent inside the program: 'rlmem run -- python train.py' puts one there, or the line
    'import rlmem.preload' in the program. Without one, memory is told by class.

    \b
    Examples:
      rlmem explain 47068
      rlmem explain --name train.py --tree --json
      rlmem explain 47068 --trim
      rlmem explain 47068 --no-names      (reads /proc only)
    """
    from rlmem.report.explain import explain_view
    from rlmem.report.explained import explained
    from rlmem.report.render import render_view

    wanted = chosen_format(format_, output, as_json=as_json)
    document = explained(
        _pid(pid, name),
        tree=tree,
        names=names,
        advised=advised,
        trim=trim,
        unsafe_attach=unsafe_attach,
        timeout_s=timeout_s,
    )
    emit(render_view(document, explain_view, wanted, output), output)
    return 0


def _pid(pid: int | None, name: str | None) -> int:
    if (pid is None) == (name is None):
        raise UsageError("give the number of a process, or --name TEXT to find it by its command")
    if pid is not None:
        return pid
    from rlmem.measure.processes import by_name

    found = by_name(name or "")
    if not found:
        raise AnalysisError(f"no process has {name!r} in its command")
    if len(found) > 1:
        raise UsageError(f"{len(found)} processes have {name!r} in their command; give one number: {_listed(found)}")
    return found[0].pid


def _listed(found: tuple[Process, ...]) -> str:
    shown = "; ".join(f"{each.pid} ({each.command[:60]})" for each in found[:8])
    return shown + ("; …" if len(found) > 8 else "")
