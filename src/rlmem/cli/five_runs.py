"""``rlmem five-runs``."""

from __future__ import annotations

from pathlib import Path

import click

from rlmem.cli.common import emit


@click.command("five-runs")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file.")
def command(output: Path | None) -> int:
    """Write the page on the five reference runs: what was said by hand, what rlmem says, and why they differ.

    \b
    Example:
      rlmem five-runs -o docs/five-runs.md
    """
    from rlmem.app.five_runs import five_runs
    from rlmem.report.five_runs import page

    emit(page(five_runs()), output)
    return 0
