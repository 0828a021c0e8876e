"""``rlmem presets``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, output_options


@click.command("presets")
@click.option(
    "--show",
    "name",
    metavar="NAME",
    shell_complete=completion.preset,
    help="Print a preset's YAML: a starting point for a run file.",
)
@output_options
def command(name: str | None, as_json: bool, format_: str | None, output: Path | None) -> int:
    """List the built-in runs, or print one as YAML.

    \b
    Examples:
      rlmem presets
      rlmem presets --show pidog-sac > run.yaml
    """
    from rlmem.report.render import render_view
    from rlmem.sources.preset import PRESETS, preset_text

    if name is not None:
        emit(preset_text(name), output)
        return 0
    document = [{"name": preset, "about": about} for preset, about in PRESETS.items()]
    emit(render_view(document, _view, chosen_format(format_, output, as_json=as_json), output), output)
    return 0


def _view(document: list[dict[str, str]]) -> Any:
    from rlmem.report.view import Column, Section, Table, View

    rows = tuple((row["name"], row["about"]) for row in document)
    table = Table(
        title="", columns=(Column(title="preset", right=False), Column(title="what it is", right=False)), rows=rows
    )
    section = Section(title="Built-in runs", tables=(table,))
    return View(
        title="rlmem presets", verdict=(), sections=(section,), notes=("'rlmem presets --show NAME' prints one.",)
    )
