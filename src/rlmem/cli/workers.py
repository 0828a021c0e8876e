"""``rlmem workers``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rlmem.cli import completion
from rlmem.cli.common import (
    budget_options,
    chosen_format,
    emit,
    output_options,
    read_share,
    set_option,
)
from rlmem.cli.nodes import check_nodes, nodes_options
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.cluster.nodes import NodeGroup


@click.command("workers")
@click.argument("target", shell_complete=completion.target)
@click.argument("args", nargs=-1, shell_complete=completion.files)
@nodes_options
@click.option("--ray", "live", is_flag=True, help="The nodes of a running Ray cluster, as if nothing ran on them.")
@click.option(
    "--address",
    metavar="ADDRESS",
    help="The cluster's address as ray.init takes it. Default: RAY_ADDRESS, else the cluster of this machine.",
)
@click.option(
    "--shard",
    metavar="PATH",
    help="Divide this count over learners, such as agents; says the smallest number of them that fits.",
)
@budget_options
@set_option
@output_options
def command(
    target: str,
    args: tuple[str, ...],
    nodes: str | None,
    margin: str,
    live: bool,
    address: str | None,
    shard: str | None,
    ram: str | None,
    vram: str | None,
    machine: str | None,
    python: str | None,
    sets: tuple[str, ...],
    as_json: bool,
    format_: str | None,
    output: Path | None,
) -> int:
    """How many workers fit: trials of a run at once, where they go, and what stops one more.

    TARGET is what 'rlmem plan' takes. An RLlib configuration (rllib:FILE.py:NAME) is placed role by role, and the answer says how many
    EnvRunners a node holds and one trial can have; every other run is one bundle with all its processes.

    A bundle counts with the upper bound of its plan and a margin on top. A node never has more than 95 % of its RAM in use, Ray's own
    processes and the object store included: there, Ray's memory monitor begins to end workers. A share of a GPU never
    spans two.

    \b
    Examples:
      rlmem workers crypto-ppo --ram 31GB
      rlmem workers crypto-ppo --nodes "1000x(64GB,16cpu)"
      rlmem workers rllib:my_config.py:config --nodes "4x(64GB,16cpu,1xA100-80GB)"
      rlmem workers pyboy-ppo --nodes "2x(128GB,32cpu,2xRTX 4090) + 10xaws-g5-2xlarge" --margin 20%
      rlmem workers pidog-sac --ray --address 10.0.0.1:6379 --json
      rlmem workers drone-swarm --set agents=10M --set storage=stream --shard agents --nodes "16x16GB"

    Nodes are a count, 'x' and a node: a size of RAM, a machine ('rlmem machines'), or parts in brackets: RAM, cores (16cpu), GPUs
    (2xRTX 4090, 1x24GB-gpu). With --ram (and --vram) it is one node on which Ray is not counted (but for RLlib); without either, this machine.

    Exits 1 when not even one fits.
    """
    from rlmem.app.place import has_gpu, place, placement_document
    from rlmem.app.subjects import open_subject
    from rlmem.plan import Budget
    from rlmem.report.placement import placement_view
    from rlmem.report.progress import working
    from rlmem.report.render import render_view
    from rlmem.sources.target import parse_target

    wanted = chosen_format(format_, output, as_json=as_json)
    groups, spare = _groups(nodes, (ram, vram, machine), address, live=live), read_share(margin, "--margin")
    run_target = parse_target(target, args, sets=sets, python=python)
    subject = open_subject(run_target, Budget(name="nodes"), working=working, gpu=has_gpu(groups))
    placement = place(subject, groups, margin=spare, on_ray=live or nodes is not None, shard=shard)
    emit(render_view(placement_document(placement), placement_view, wanted, output), output)
    return 0 if placement.trials else 1


def _groups(
    nodes: str | None, sizes: tuple[str | None, str | None, str | None], address: str | None, *, live: bool
) -> tuple[NodeGroup, ...]:
    """The nodes: named, those of a cluster, or one machine."""
    if address is not None and not live:
        raise UsageError("--address is for --ray, which reads the nodes of a running cluster")
    if live and (nodes is not None or any(sizes)):
        raise UsageError("--ray and --nodes/--ram/--vram/--machine contradict each other; use one")
    if live:
        from rlmem.ray.connecting import connected, running
        from rlmem.ray.placement import nodes_of
        from rlmem.report.progress import working

        with working("asking the cluster's nodes"), connected(running(address)) as ray:
            return nodes_of(ray)
    return check_nodes(nodes, sizes) or _here(*sizes)


def _here(ram: str | None, vram: str | None, machine: str | None) -> tuple[NodeGroup, ...]:
    """One machine: stated, from the catalogue, or this one. Of one that is stated by its sizes nobody knows the cores."""
    from rlmem.budget import make_budget
    from rlmem.cluster.nodes import one_node
    from rlmem.errors import AnalysisError

    budget = make_budget(ram=ram, vram=vram, machine=machine)
    if budget.ram_bytes is None:
        raise AnalysisError(f"{budget.name}: how much RAM it has is not known; give --ram or --nodes")
    cpus = budget.cores if ram is None or machine is not None else None
    found_vram = None if ram is not None and vram is None and machine is None else budget.vram_bytes
    return one_node(budget.name, budget.ram_bytes, vram_bytes=found_vram, cpus=cpus, unified=budget.unified)
