"""What commands share that can send their work to a cluster: ``--on ray`` and ``--address``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.app.clusters import ClusterOptions


def on_options(function: Callable[..., int]) -> Callable[..., int]:
    """``--on`` and ``--address``, which a command gets as ``cluster``: ``ClusterOptions``, or None for this machine."""

    @wraps(function)
    def command(*, on: str | None, address: str | None, **others: Any) -> int:
        return function(cluster=_chosen(on, address), **others)

    command = click.option(
        "--address",
        metavar="ADDRESS",
        help="Ray's address, as its own clients take it: host:port, ray://host:port, auto, local. Default: RAY_ADDRESS, else a "
        "cluster of this machine, else one that is started here and ends with the command.",
    )(command)
    return click.option(
        "--on",
        type=click.Choice(("ray",)),
        help="Run on a cluster: each one a task, sized by its plan. Default: one after another on this machine.",
    )(command)


def _chosen(on: str | None, address: str | None) -> ClusterOptions | None:
    """The cluster that work goes to; says early what is missing for that."""
    if on is None:
        if address is not None:
            raise UsageError(f"--address {address} is for work on a cluster: give --on ray too")
        return None
    from rlmem.app.clusters import ClusterOptions
    from rlmem.ray.connecting import need_ray

    need_ray()
    return ClusterOptions(address=address)


def say(text: str) -> None:
    """A line about the cluster, on standard error."""
    print(f"rlmem: {text}", file=sys.stderr, flush=True)
