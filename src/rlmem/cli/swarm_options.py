"""The options of a training: one for every field of the settings, from one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from typing import Any, TypeVar

import click

from rlmem.errors import UsageError
from rlmem.swarm.settings import BY_NAME, COMPUTES, ENCODINGS, HISTORIES, IMUS, Settings
from rlmem.units import parse_count

F = TypeVar("F", bound=Callable[..., Any])
PROGRAM = "python -m rlmem.swarm"


def count(_context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """A whole number as people write it: ``20_000``, ``20k``, ``1M``; an error names the option."""
    try:
        return None if value is None else parse_count(value)
    except UsageError as error:
        raise click.BadParameter(str(error), param=parameter) from None


def count_or_auto(context: click.Context, parameter: click.Parameter, value: str | None) -> int | str | None:
    """The same, or the word ``auto``."""
    return value if value == "auto" else count(context, parameter, value)


#: Field to what its option says; choices are listed from the settings' own tables.
HELP = {
    "agents": "Drones, all in one environment.",
    "steps": "Steps of an episode; an iteration collects one.",
    "iterations": "Iterations in all, those before a --resume included.",
    "epochs": "Passes over what was collected, an iteration.",
    "minibatches": "Optimizer steps an epoch, each on an equal share of the agents; 1 is one batch of all.",
    "chunk": "Agents in the network at once; decides memory and speed, not what is learnt. "
    "'auto' asks the planner for one under the cap.",
    "rung": f"Version of the algorithm, from the assessed one to the smallest: {', '.join(BY_NAME)}.",
    "history": "What the window holds after a reset: zeros, or the history of the episode before.",
    "encoding": "One pass over the stream of a chunk, or every window by itself.",
    "imu": "How 16-bit samples are stored.",
    "compute": "Precision of the networks' arithmetic.",
    "ae_share": "Share of the windows the autoencoder learns from, above 0 and up to 1.",
    "learning_rate": "Of both optimizers.",
    "seed": "Of everything that is drawn.",
    "device": "cpu, cuda or cuda:N.",
}
CHOICES = {"history": HISTORIES, "encoding": ENCODINGS, "imu": IMUS, "compute": COMPUTES}


def settings_options(function: F) -> F:
    """``--agents``, ``--steps`` and so on; one that is not given is ``None``, so that a resumed run can tell."""
    for field in reversed(fields(Settings)):
        default = "auto" if field.name == "chunk" else field.default
        function = click.option(
            f"--{field.name.replace('_', '-')}",
            field.name,
            **_kind(field),
            help=f"{HELP.get(field.name, '')}  [default: {_written(default)}]",
        )(function)
    return function


def given_settings(options: dict[str, Any]) -> dict[str, Any]:
    """The fields that were given on the command line."""
    names = {field.name for field in fields(Settings)}
    return {name: value for name, value in options.items() if name in names and value is not None}


def _kind(field: Field[Any]) -> dict[str, Any]:
    """How an option reads its text."""
    if field.name in CHOICES:
        return {"type": click.Choice(CHOICES[field.name])}
    if field.name == "chunk":
        return {"callback": count_or_auto, "metavar": "auto|N"}
    if isinstance(field.default, int):
        return {"callback": count, "metavar": "N"}
    return {"type": type(field.default), "metavar": {float: "X", str: "NAME"}[type(field.default)]}


def _written(value: Any) -> str:
    return f"{value:_}" if isinstance(value, int) else str(value)
