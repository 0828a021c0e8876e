"""``rlmem show``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, output_options
from rlmem.cli.saved import TableFiles, deliver, export_options, read_file
from rlmem.errors import UsageError
from rlmem.units import answering_in


@click.command("show")
@click.argument("run_or_file", shell_complete=completion.run_or_file)
@export_options
@output_options
def command(run_or_file: str, tables: TableFiles, out: Output) -> int:
    """Show a stored run ('rlmem runs' lists them), or a document saved with --json, whatever version wrote it.

    A run is named by its id or the start of it.

    \b
    Examples:
      rlmem show 3f9a
      rlmem show 3f9a --csv points.csv
      rlmem plan pidog-sac --ram 30GB -o plan.json
      rlmem show plan.json --format markdown
    """
    from rlmem.documents.contract import to_plain
    from rlmem.documents.kinds import read_document
    from rlmem.documents.sweep import SweepDocument
    from rlmem.sources.target import target_kind

    if target_kind(run_or_file) == "run":
        from rlmem.app.runs import stored_document
        from rlmem.runner.store import open_store

        with open_store() as store:
            run = store.find(run_or_file)
            document, where = stored_document(store, run), f"run {run.id}"
    else:
        document, where = read_document(read_file(Path(run_or_file)), run_or_file), run_or_file
    if tables.with_output(out.path).is_wanted and not isinstance(document, SweepDocument):
        raise UsageError(f"{where}: only measurements have points to write with --csv or --parquet")
    with answering_in(_typed_size(to_plain(document))):
        deliver(document, out, tables)
    return 0


def _typed_size(document: Mapping[str, Any]) -> str | None:
    """The size that was typed for a plan or a benchmark, in whose unit it answered: ``--ram 30GB``."""
    machine = document.get("machine")
    sources = [machine.get("ram_source"), machine.get("vram_source")] if isinstance(machine, Mapping) else []
    sources.append(document.get("limit_source"))
    typed = (source.split()[1] for source in sources if source and source.startswith("--"))
    return next(typed, None)
