"""The JSON Schemas that ``rlmem schema`` prints."""

from __future__ import annotations

import click

from golden.harness import Case, command_case
from rlmem.cli.schema import command

_KINDS = next(parameter.type for parameter in command.params if isinstance(parameter.type, click.Choice)).choices

CASES: tuple[Case, ...] = tuple(command_case(f"schemas/{kind}.txt", ["schema", kind]) for kind in _KINDS)
