"""``rlmem plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli.common import (
    budget_options,
    check_html,
    chosen_format,
    emit,
    emit_html,
    find_run,
    html_options,
    make_planner,
    output_options,
    set_option,
)
from rlmem.cli.placing import check_nodes, nodes_options, nodes_planner, nodes_sizes, place_plan
from rlmem.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from rlmem.trace.subjects import Subject


@click.command("plan")
@click.argument("target")
@click.argument("args", nargs=-1)
@budget_options
@nodes_options
@set_option
@click.option("--timeout", type=click.FloatRange(min=5), metavar="SECONDS", help="Time a dry run may take [27].")
@click.option("--cap", metavar="SIZE", help="Memory a dry run may take before it is ended. Default: what is available.")
@click.option("--save", is_flag=True, help="Keep the plan in the store ('rlmem runs').")
@click.option("--why", metavar="COMPONENT", help="Show a component's formula and the origin of every value in it.")
@click.option(
    "--stacks",
    is_flag=True,
    help="Instead of the plan: what rsl_rl, rl_games, Brax and others would hold of the same rollout's observations.",
)
@html_options
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    ram: str | None,
    vram: str | None,
    machine: str | None,
    python: str | None,
    nodes: str | None,
    margin: str,
    sets: tuple[str, ...],
    timeout: float | None,
    cap: str | None,
    save: bool,
    why: str | None,
    stacks: bool,
    html: Path | None,
    redact: bool,
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """Say what a run will need, by component, device, process and phase, and whether it fits.

    TARGET is a preset ('rlmem presets'), a run file (YAML or JSON; 'rlmem schema run' lists the fields), or something to
    run: your training script (with its ARGS after '--'), a factory package.module:function that returns a model, or an
    RL Zoo entry zoo:ALGO/ENV. What can be run is: in a process of its own, under a cap, up to learn() and through a few
    real updates, with big arrays held back. Nothing is trained, logged or saved, and files it wrote are put back. An RLlib
    configuration, rllib:FILE.py:NAME, is described in a process of its own, and nothing of it is trained (docs/ray.md).

    \b
    Examples:
      rlmem plan pidog-sac --ram 30GB
      rlmem plan train.py -- --env Hopper-v5 --buffer-size 1000000
      rlmem plan train.py --python ~/envs/train/bin/python --set buffer_size=200k
      rlmem plan mypkg.train:make_model --ram 16GB
      rlmem plan zoo:sac/HalfCheetah-v4 --json
      rlmem plan rllib:my_config.py:config --nodes "4x(64GB,1xA100-80GB)"
      rlmem plan pyboy-ppo --ram 32GB --vram 16GB --set n_envs=4 --set framework.version=2.3.2
      rlmem plan pidog-sac --why replay.observations
      rlmem plan train.py --html plan.html
      rlmem plan drone-swarm --set agents=1M --set storage=stream --ram 16GB
      rlmem plan drone-swarm --set agents=1M --stacks

    Exits 1 when the run does not fit, or will not work as described (a finding of severity error); 3 when a script could
    not be taken as far as a plan.
    """
    from rlmem.report.document import plan_document
    from rlmem.report.render import render_view
    from rlmem.report.view import plan_view
    from rlmem.trace.rllib import is_rllib
    from rlmem.trace.subjects import described
    from rlmem.trace.target import is_runnable

    wanted = chosen_format(format_, output, as_json=as_json)
    check_html(html, target, redact=redact)
    groups = check_nodes(nodes, (ram, vram, machine))
    if groups:
        ram, vram = nodes_sizes(groups, margin)
    if stacks:
        if html:
            raise UsageError("--stacks and --html contradict each other; use one")
        emit(_stacks(target, sets, (ram, vram, machine, python), why, wanted, output), output)
        return 0
    if is_runnable(target) and not is_rllib(target):
        subject = from_dry_run(target, args, (ram, vram, machine, python), sets, timeout, cap)
    else:
        for given, option in ((args, "script arguments"), (timeout, "--timeout"), (cap, "--cap")):
            if given:
                raise UsageError(f"{target}: {option} are for targets that are run, such as train.py")
        spec = find_run(target, sets, python)
        planner = nodes_planner(spec, groups, margin, python) if groups else make_planner(ram, vram, machine, python)
        subject = described(planner, spec)
    document = plan_document(subject.plan)
    placed = place_plan(document, subject, groups, margin) if groups else True
    if save:
        _keep(document)
    if html:
        _write_html(subject, document, target, html, redact=redact)
    emit(_why(document, why, wanted, output) if why else render_view(document, plan_view, wanted, output), output)
    return subject.plan.exit_code or int(not placed)


def _write_html(subject: Subject, document: dict[str, Any], target: str, path: Path, *, redact: bool) -> None:
    import sys

    from rlmem.report.full import report_document

    command = ["rlmem", *sys.argv[1:]]
    emit_html(report_document(subject, target=target, command=command, plan=document), path, redact=redact)


def _stacks(
    target: str,
    sets: tuple[str, ...],
    machine_options: tuple[str | None, str | None, str | None, str | None],
    why: str | None,
    wanted: str,
    output: Path | None,
) -> str:
    from rlmem.report.render import render_view
    from rlmem.report.stacks import stacks_document, stacks_view
    from rlmem.sources import load
    from rlmem.trace.target import is_runnable

    if is_runnable(target):
        raise UsageError(f"{target}: --stacks is for described runs, a preset or a run file")
    if why:
        raise UsageError("--stacks and --why contradict each other; use one")
    return render_view(stacks_document(load(target, sets), make_planner(*machine_options)), stacks_view, wanted, output)


def from_dry_run(
    target: str,
    args: tuple[str, ...],
    machine_options: tuple[str | None, str | None, str | None, str | None],
    sets: tuple[str, ...],
    timeout: float | None,
    cap: str | None,
) -> Subject:
    """A target that is run, planned from a dry run of it."""
    from rlmem.budget import cap_bytes, make_budget
    from rlmem.measure.calibration import read_calibration
    from rlmem.planner import Planner
    from rlmem.report.progress import working
    from rlmem.trace.changes import changes_from, split_values
    from rlmem.trace.dryrun import dry_run
    from rlmem.trace.subjects import tried
    from rlmem.trace.target import parse_target

    ram, vram, machine, python = machine_options
    asked, device = changes_from(sets)
    args, changes = split_values(
        Path(target) if target.endswith(".py") and Path(target).is_file() else None, args, asked
    )
    found = parse_target(target, args, python=python)
    planner = Planner(make_budget(ram=ram, vram=vram, machine=machine), read_calibration(found.python))
    most = cap_bytes(cap)
    # A learner that chooses its device itself will choose the GPU of the machine it is planned for.
    device = device or ("cuda" if planner.budget.vram_bytes else None)
    with working(f"dry run of {found.name}") as tick:
        run = dry_run(found, changes=changes, cap_bytes=most, time_s=timeout, device=device, on_tick=tick)
    return tried(planner, run)


def _keep(document: dict[str, Any]) -> None:
    import sys

    from rlmem.runner.store import save_plan

    print(f"saved as {save_plan(document, command=sys.argv)}", file=sys.stderr)


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
