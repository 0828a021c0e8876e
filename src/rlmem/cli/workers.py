"""``rlmem workers``."""

from __future__ import annotations

import click

from rlmem.cli import completion
from rlmem.cli.common import (
    Limits,
    Output,
    budget_options,
    output_options,
    read_share,
    set_option,
)
from rlmem.cli.nodes import nodes_options


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
    limits: Limits,
    python: str | None,
    sets: tuple[str, ...],
    out: Output,
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
    from rlmem.app.workers import NodesRequest, WorkersRequest, find_nodes, fit_workers
    from rlmem.report.progress import spinner
    from rlmem.sources.target import parse_target

    meant = NodesRequest(
        nodes=nodes, live=live, address=address, ram=limits.ram, vram=limits.vram, machine=limits.machine
    )
    groups = find_nodes(meant, spinner)
    request = WorkersRequest(
        groups=groups,
        margin=read_share(margin, "--margin"),
        target=parse_target(target, args, sets=sets, python=python),
        on_ray=live or nodes is not None,
        shard=shard,
    )
    document = fit_workers(request, spinner)
    out.show(document)
    return 0 if document.trials else 1
