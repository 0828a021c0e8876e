"""What commands share that can send their work to a cluster: ``--on ray`` and ``--address``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from rlmem.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])


def on_options(function: F) -> F:
    """``--on`` and ``--address``."""
    function = click.option(
        "--address",
        metavar="ADDRESS",
        help="Ray's address, as its own clients take it: host:port, ray://host:port, auto, local. Default: RAY_ADDRESS, else a "
        "cluster of this machine, else one that is started here and ends with the command.",
    )(function)
    return click.option(
        "--on",
        type=click.Choice(("ray",)),
        help="Run on a cluster: each one a task, sized by its plan. Default: one after another on this machine.",
    )(function)


def check_on(on: str | None, address: str | None) -> bool:
    """Whether the work goes to Ray; says early what is missing for that."""
    if on is None:
        if address is not None:
            raise UsageError(f"--address {address} is for work on a cluster: give --on ray too")
        return False
    from rlmem.ray.connecting import need_ray

    need_ray()
    return True


def say(text: str) -> None:
    """A line about the cluster, on standard error."""
    print(f"rlmem: {text}", file=sys.stderr, flush=True)
