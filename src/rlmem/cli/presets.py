"""``rlmem presets``."""

from __future__ import annotations

from pathlib import Path

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
    from rlmem.app.presets import list_presets
    from rlmem.report.presets import presets_view
    from rlmem.report.render import render_view
    from rlmem.sources.preset import preset_text

    if name is not None:
        emit(preset_text(name), output)
        return 0
    wanted = chosen_format(format_, output, as_json=as_json)
    emit(render_view(list_presets(), presets_view, wanted, output), output)
    return 0
