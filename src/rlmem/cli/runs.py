"""``rlmem runs``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, output_options


@click.command("runs")
@click.option("--kind", type=click.Choice(["measure", "plan", "bench", "run"]), help="Only runs of one kind.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many, newest first."
)
@click.option(
    "--delete",
    "deleted",
    metavar="RUN",
    multiple=True,
    shell_complete=completion.run,
    help="Forget a run and its points; repeatable.",
)
@output_options
def command(
    kind: str | None,
    limit: int,
    deleted: tuple[str, ...],
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """List stored results, newest first, or delete some.

    Results are kept in RLMEM_DATA_DIR, else in the user's data folder. 'rlmem show RUN' shows one again.

    \b
    Examples:
      rlmem runs
      rlmem runs --kind measure --json
      rlmem runs --delete 3f9a
    """
    from rlmem.app.runs import delete_runs, list_runs
    from rlmem.report.render import render_view
    from rlmem.report.runs import runs_view
    from rlmem.runner.store import open_store

    wanted = chosen_format(format_, output, as_json=as_json)
    if deleted:
        for name in delete_runs(deleted):
            print(f"deleted {name}", file=sys.stderr)
        return 0
    with open_store() as store:
        document = list_runs(store, kind=kind, limit=limit)
    emit(render_view(document, runs_view, wanted, output), output)
    return 0
