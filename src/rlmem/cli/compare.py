"""``rlmem compare``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli import completion
from rlmem.cli.common import budget_options, chosen_format, emit, output_options, set_option
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.core.target import Target
    from rlmem.documents.plan import PlanDocument


@click.command("compare")
@click.argument("left", shell_complete=completion.target_or_run)
@click.argument("right", shell_complete=completion.target_or_run)
@click.argument("args", nargs=-1, shell_complete=completion.files)
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
    args: tuple[str, ...],
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

    LEFT and RIGHT are targets to plan (what 'rlmem plan' takes; ARGS after '--' go to scripts on both sides) or stored runs
    ('rlmem runs'), named by the start of their id: two plans, two measurements, or two that 'rlmem run' recorded, which are
    compared by owner and by phase.

    \b
    Examples:
      rlmem compare drone-swarm drone-swarm --set-right history=100
      rlmem compare drone-swarm-v0 drone-swarm --set agents=10k
      rlmem compare pyboy-ppo pyboy-ppo --set-left framework.version=2.3.2 --json
      rlmem compare train.py train.py --set-right n_envs=8
      rlmem compare 3f9a 81c0
      rlmem compare 5d20 c4da -o before-and-after.md
    """
    from rlmem.report.comparing import compare_documents
    from rlmem.report.render import render_view
    from rlmem.sources.target import parse_target

    wanted = chosen_format(format_, output, as_json=as_json)
    limits = (ram, vram, machine)
    sides = [
        parse_target(target, args, sets=(*sets, *own), python=python)
        for target, own in ((left, sets_left), (right, sets_right))
    ]
    if args and not any(side.is_executable for side in sides):
        raise UsageError("script arguments are for targets that are run, such as train.py")
    documents = [_side(side, limits) for side in sides]
    labels = [" ".join((target, *own)) for target, own in ((left, sets_left), (right, sets_right))]
    document, view = compare_documents(documents, labels)
    emit(render_view(document, view, wanted, output), output)
    return 0


def _side(target: Target, limits: tuple[str | None, ...]) -> Any:
    """The document of one side: a stored run as it is, a target planned now."""
    if target.kind != "run":
        return _planned(target, limits)
    if target.sets:
        raise UsageError(f"{target.text} is a stored run: --set cannot change it")
    from rlmem.report.saved import read_document, run_document
    from rlmem.runner.store import open_store

    with open_store() as store:
        run = store.find(target.text)
        return read_document(run_document(store, run), f"run {run.id}")[0]


def _planned(target: Target, limits: tuple[str | None, ...]) -> PlanDocument:
    from rlmem.app.subjects import open_subject
    from rlmem.budget import make_budget
    from rlmem.documents.plan import plan_document
    from rlmem.report.progress import working

    ram, vram, machine = limits
    budget = make_budget(ram=ram, vram=vram, machine=machine)
    asked = target if target.is_executable else replace(target, args=())
    return plan_document(open_subject(asked, budget, working=working, gpu=bool(budget.vram_bytes)).plan)
