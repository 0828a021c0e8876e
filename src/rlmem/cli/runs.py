"""``rlmem runs``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, output_options

if TYPE_CHECKING:
    from rlmem.report.view import View


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
    from rlmem.app.runs import run_row
    from rlmem.report.render import render_view
    from rlmem.runner.store import open_store

    wanted = chosen_format(format_, output, as_json=as_json)
    if deleted:
        with open_store(write=True) as store:
            found = dict.fromkeys(store.find(prefix).id for prefix in deleted)
            for name in found:
                store.delete(name)
                print(f"deleted {name}", file=sys.stderr)
        return 0
    with open_store() as store:
        document = {
            "schema": "rlmem.runs/1",
            "store": str(store.path),
            "runs": [run_row(store, run) for run in store.runs(kind=kind, limit=limit)],
        }
    emit(render_view(document, _view, wanted, output), output)
    return 0


def _view(document: dict[str, Any]) -> View:
    from rlmem.report.view import Column, Section, Table, View
    from rlmem.units import format_size

    rows = tuple(
        (
            run["id"],
            run["kind"],
            run["target"],
            run["started"][:16].replace("T", " "),
            run["status"],
            str(run["points"] or ""),
            "" if run["peak_bytes"] is None else format_size(run["peak_bytes"]),
        )
        for run in document["runs"]
    )
    columns = (
        Column(title="run", right=False),
        Column(title="kind", right=False),
        Column(title="target", right=False),
        Column(title="started (UTC)", right=False, rank=2),
        Column(title="status", right=False),
        Column(title="points", rank=4),
        Column(title="largest peak"),
    )
    lines = () if rows else ("none yet: 'rlmem measure', 'rlmem bench' and 'rlmem run' keep theirs here",)
    tables = (Table(title="", columns=columns, rows=rows),) if rows else ()
    section = Section(title="Runs", lines=lines, tables=tables)
    return View(title="rlmem runs", verdict=(), sections=(section,), notes=(f"kept in {document['store']}",))
