"""``rlmem compare``."""

from __future__ import annotations

from pathlib import Path

import click

from rlmem.cli.common import budget_options, chosen_format, emit, make_planner, output_options, set_option


@click.command("compare")
@click.argument("left")
@click.argument("right")
@click.option("--set-left", "sets_left", metavar="PATH=VALUE", multiple=True, help="Change a field on the left only.")
@click.option(
    "--set-right", "sets_right", metavar="PATH=VALUE", multiple=True, help="Change a field on the right only."
)
@set_option
@budget_options
@output_options
def command(
    left: str,
    right: str,
    sets_left: tuple[str, ...],
    sets_right: tuple[str, ...],
    sets: tuple[str, ...],
    ram: str | None,
    vram: str | None,
    machine: str | None,
    python: str | None,
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """Two plans side by side: what differs, component by component, at each one's own peak.

    \b
    Examples:
      rlmem compare drone-swarm drone-swarm --set-right history=100
      rlmem compare drone-swarm-v0 drone-swarm --set agents=10k
      rlmem compare pyboy-ppo pyboy-ppo --set-left framework.version=2.3.2 --json
    """
    from rlmem.report.compare import compare_document, compare_view
    from rlmem.report.render import render_view
    from rlmem.sources import load

    wanted = chosen_format(format_, output, as_json=as_json)
    planner = make_planner(ram, vram, machine, python)
    plans = [
        planner.plan(load(target, (*sets, *own)), findings=False)
        for target, own in ((left, sets_left), (right, sets_right))
    ]
    labels = [" ".join((target, *own)) for target, own in ((left, sets_left), (right, sets_right))]
    emit(render_view(compare_document(plans, labels), compare_view, wanted, output), output)
    return 0
