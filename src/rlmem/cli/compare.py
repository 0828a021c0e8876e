"""``rlmem compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rlmem.cli.common import budget_options, chosen_format, emit, make_planner, output_options, set_option
from rlmem.cli.saved import is_run, read_document, run_document
from rlmem.errors import UsageError


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
    """Two plans or two stored runs side by side: what differs, component by component, at each one's own peak.

    LEFT and RIGHT are targets to plan (presets, run files) or stored runs ('rlmem runs'), named by the start of their id.

    \b
    Examples:
      rlmem compare drone-swarm drone-swarm --set-right history=100
      rlmem compare drone-swarm-v0 drone-swarm --set agents=10k
      rlmem compare pyboy-ppo pyboy-ppo --set-left framework.version=2.3.2 --json
      rlmem compare 3f9a 81c0
    """
    from rlmem.report.compare import compare_plan_documents, compare_view
    from rlmem.report.compare_sweeps import compare_sweeps, compare_sweeps_view
    from rlmem.report.render import render_view

    wanted = chosen_format(format_, output, as_json=as_json)
    limits = (ram, vram, machine, python)
    sides = [_side(left, (*sets, *sets_left), limits), _side(right, (*sets, *sets_right), limits)]
    labels = [" ".join((target, *own)) for target, own in ((left, sets_left), (right, sets_right))]
    schemas = [document["schema"] for document in sides]
    if schemas == ["rlmem.plan/1"] * 2:
        emit(render_view(compare_plan_documents(sides, labels), compare_view, wanted, output), output)
    elif schemas == ["rlmem.sweep/1"] * 2:
        emit(render_view(compare_sweeps(sides, labels), compare_sweeps_view, wanted, output), output)
    else:
        kinds = " and ".join(schema.removeprefix("rlmem.").partition("/")[0] for schema in schemas)
        raise UsageError(f"{left} and {right} are {kinds}: only two plans or two sweeps compare")
    return 0


def _side(target: str, sets: tuple[str, ...], limits: tuple[str | None, ...]) -> dict[str, Any]:
    """The document of one side: a stored run as it is, a target planned now."""
    from rlmem.report.document import plan_document
    from rlmem.sources import load

    if not is_run(target):
        return plan_document(make_planner(*limits).plan(load(target, sets), findings=False))
    if sets:
        raise UsageError(f"{target} is a stored run: --set cannot change it")
    from rlmem.runner.store import open_store

    with open_store() as store:
        run = store.find(target)
        return read_document(run_document(store, run), f"run {run.id}")[0]
