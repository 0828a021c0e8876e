"""``rlmem plan``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import (
    HtmlFile,
    Limits,
    Output,
    budget_options,
    html_options,
    in_typed_unit,
    output_options,
    read_share,
    set_option,
)
from rlmem.cli.nodes import nodes_options
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.core.target import Target
    from rlmem.documents.plan import PlanDocument
    from rlmem.report.first_screen import PlanArguments


@click.command("plan")
@click.argument("target", shell_complete=completion.target)
@click.argument("args", nargs=-1, shell_complete=completion.files)
@budget_options
@nodes_options
@set_option
@click.option("--timeout", type=click.FloatRange(min=5), metavar="SECONDS", help="Time a dry run may take [27].")
@click.option(
    "--cap",
    metavar="SIZE",
    callback=in_typed_unit,
    help="Memory a dry run may take before it is ended. Default: what is available.",
)
@click.option(
    "--full", is_flag=True, help="Every component by phase, all findings, processes; not the first screen only."
)
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
    limits: Limits,
    python: str | None,
    nodes: str | None,
    margin: str,
    sets: tuple[str, ...],
    timeout: float | None,
    cap: str | None,
    full: bool,
    save: bool,
    why: str | None,
    stacks: bool,
    report: HtmlFile,
    out: Output,
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
      rlmem plan pidog-sac --full
      rlmem plan pidog-sac --why replay.observations
      rlmem plan train.py --html plan.html
      rlmem plan drone-swarm --set agents=1M --set storage=stream --ram 16GB
      rlmem plan drone-swarm --set agents=1M --stacks

    Exits 1 when the run does not fit, or will not work as described (a finding of severity error); 3 when a script could
    not be taken as far as a plan; 4 when there is a limit and no figure to hold against it (VRAM of a loop of its own); 5
    when it grows for as long as it runs, so that no peak can be said.
    """
    from rlmem.app.plan import PlanRequest, plan_run
    from rlmem.app.workers import named_nodes
    from rlmem.report.first_screen import first_screen
    from rlmem.report.plan import plan_view
    from rlmem.report.progress import spinner
    from rlmem.sources.target import parse_target

    report.check(target)
    groups = named_nodes(nodes, limits.words)
    request = PlanRequest(
        target=parse_target(target, args, sets=sets, python=python),
        budget=None if groups else limits.budget(),
        nodes=groups,
        margin=read_share(margin, "--margin") if groups else 0.0,
        timeout_s=timeout,
        cap=cap,
    )
    if stacks:
        if report.path:
            raise UsageError("--stacks and --html contradict each other; use one")
        if why:
            raise UsageError("--stacks and --why contradict each other; use one")
        from rlmem.app.stacks import stacks as stacks_of

        out.show(stacks_of(request))
        return 0
    planned = plan_run(request, spinner)
    document, code = planned.document, planned.exit_code
    if save:
        _keep(document)
    report.write(lambda: planned.report(["rlmem", *sys.argv[1:]]))
    if why:
        from rlmem.app.formulas import formulas

        out.show(formulas(document, why))
        return code
    arguments = _arguments(request.target, limits)
    brief = out.format == "text" and not (full or groups)
    out.show(document, lambda plan: first_screen(plan, arguments) if brief else plan_view(plan))
    return code


def _arguments(target: Target, limits: Limits) -> PlanArguments:
    """Return the arguments that other commands take for the same run."""
    from rlmem.report.first_screen import PlanArguments

    values = (
        ("--ram", limits.ram),
        ("--vram", limits.vram),
        ("--machine", limits.machine),
        ("--python", target.python),
    )
    options = [word for option, value in values if value for word in (option, value)]
    options += [word for value in target.sets for word in ("--set", value)]
    return PlanArguments(target=target, options=tuple(options), ram=limits.ram)


def _keep(document: PlanDocument) -> None:
    from rlmem.runner.store import save_plan

    print(f"saved as {save_plan(document, command=sys.argv)}", file=sys.stderr)
