"""What ``rlmem workers`` and ``rlmem plan --nodes`` share: their options."""

from __future__ import annotations

import click

from rlmem.cli.common import F

_NODES_HELP = (
    'Nodes to place the run on: "4x(64GB,16cpu,1xA100-80GB)", "64GB", "10xaws-g5-xlarge"; several groups with "+".'
)


def nodes_options(function: F) -> F:
    """``--nodes`` and ``--margin``."""
    function = click.option(
        "--margin",
        default="10%",
        show_default=True,
        metavar="SHARE",
        help="Added to every bundle's upper bound when it is placed, such as 10% or 0.1.",
    )(function)
    return click.option("--nodes", metavar="NODES", help=_NODES_HELP)(function)
