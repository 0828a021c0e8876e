"""``rlmem assess``."""

from __future__ import annotations

from pathlib import Path

import click

from rlmem.cli.common import budget_options, chosen_format, emit, make_planner, output_options, set_option


@click.command("assess")
@click.argument("target")
@budget_options
@set_option
@output_options
def command(
    target: str,
    ram: str | None,
    vram: str | None,
    machine: str | None,
    python: str | None,
    sets: tuple[str, ...],
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """Write the memory assessment of a run: settings, unit costs, peak, capacity, logic checks, recommendations.

    \b
    Examples:
      rlmem assess pidog-sac --ram 30GB -o assessment.md
      rlmem assess pyboy-ppo --ram 32GB --vram 16GB --format markdown
      rlmem assess run.yaml --json

    Exits 1 when the run does not fit or will not work as described.
    """
    from rlmem.report.assess import assessment_document, assessment_view
    from rlmem.report.render import render_view
    from rlmem.sources import load

    wanted = chosen_format(format_, output, as_json=as_json)
    document = assessment_document(load(target, sets), make_planner(ram, vram, machine, python))
    emit(render_view(document, assessment_view, wanted, output), output)
    broken = any(finding["severity"] == "error" for finding in document["plan"]["findings"])
    return 1 if document["plan"]["verdict"] == "does-not-fit" or broken else 0
