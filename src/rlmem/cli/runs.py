"""``rlmem runs``."""

from __future__ import annotations

import sys

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, output_options


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
    out: Output,
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
    from rlmem.runner.store import open_store

    if deleted:
        for name in delete_runs(deleted):
            print(f"deleted {name}", file=sys.stderr)
        return 0
    with open_store() as store:
        document = list_runs(store, kind=kind, limit=limit)
    out.show(document)
    return 0
