"""``rlmem presets``."""

from __future__ import annotations

import click

from rlmem.cli import completion
from rlmem.cli.common import Output, output_options


@click.command("presets")
@click.option(
    "--show",
    "name",
    metavar="NAME",
    shell_complete=completion.preset,
    help="Print a preset's YAML: a starting point for a run file.",
)
@output_options
def command(name: str | None, out: Output) -> int:
    """List the built-in runs, or print one as YAML.

    \b
    Examples:
      rlmem presets
      rlmem presets --show pidog-sac > run.yaml
    """
    from rlmem.app.presets import list_presets
    from rlmem.sources.preset import preset_text

    if name is not None:
        out.write(preset_text(name))
        return 0
    out.show(list_presets())
    return 0
