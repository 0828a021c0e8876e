"""``rlmem plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from rlmem.cli.common import budget_options, chosen_format, emit, make_planner, output_options, set_option
from rlmem.errors import UsageError, did_you_mean


@click.command("plan")
@click.argument("target")
@budget_options
@set_option
@click.option("--why", metavar="COMPONENT", help="Show a component's formula and the origin of every value in it.")
@output_options
def command(
    target: str,
    ram: str | None,
    vram: str | None,
    machine: str | None,
    python: str | None,
    sets: tuple[str, ...],
    why: str | None,
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """Say what a run will need, by component, device, process and phase, and whether it fits.

    TARGET is a preset ('rlmem presets') or a run file (YAML or JSON; 'rlmem schema run' lists the fields).

    \b
    Examples:
      rlmem plan pidog-sac --ram 30GB
      rlmem plan pyboy-ppo --ram 32GB --vram 16GB --set n_envs=4 --set framework.version=2.3.2
      rlmem plan run.yaml --json
      rlmem plan pidog-sac --why replay.observations
      rlmem plan drone-swarm --machine laptop-16gb

    Exits 1 when the run does not fit, or will not work as described (a finding of severity error).
    """
    from rlmem.report.document import plan_document
    from rlmem.report.render import render_view
    from rlmem.report.view import plan_view
    from rlmem.sources import load

    wanted = chosen_format(format_, output, as_json=as_json)
    planner = make_planner(ram, vram, machine, python)
    plan = planner.plan(load(target, sets))
    document = plan_document(plan)
    emit(_why(document, why, wanted, output) if why else render_view(document, plan_view, wanted, output), output)
    return plan.exit_code


def _why(document: dict[str, Any], component: str, wanted: str, output: Path | None) -> str:
    from rlmem.ledger import matches
    from rlmem.report.render import render_view
    from rlmem.report.view import View, why_sections

    entries = [entry for entry in document["entries"] if matches(entry["component"], component)]
    if not entries:
        known = sorted({entry["component"] for entry in document["entries"]})
        groups = ", ".join(sorted({name.split(".")[0] for name in known}))
        raise UsageError(f"--why {component!r}: no such component{did_you_mean(component, known)}; groups: {groups}")
    return render_view(
        entries, lambda found: View(title=component, verdict=(), sections=why_sections(found)), wanted, output
    )
