"""What every command says of itself, in 80 columns."""

from __future__ import annotations

from golden.harness import Case, command_case
from rlmem.cli import COMMANDS

CASES: tuple[Case, ...] = (
    command_case("help/rlmem.txt", ["--help"]),
    command_case("help/nothing.txt", []),
    command_case("help/version.txt", ["--version"]),
    *(command_case(f"help/{name}.txt", [name, "--help"]) for name in COMMANDS),
)
