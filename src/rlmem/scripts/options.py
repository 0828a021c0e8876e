"""Options of a command line: where a script declares them, and the numbers that a command line gives."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from rlmem.scripts.arguments import destination
from rlmem.scripts.script import Script

#: Calls that declare an option: argparse, click, typer, absl.
_DECLARE = re.compile(r"^(add_argument|option|Option|argument|DEFINE_\w+)$")


def plain(name: str) -> str:
    """A name as it is compared: without dashes before it and groups around it.

    >>> plain("--replay.buffer-size")
    'buffer_size'
    """
    return name.lstrip("-+").replace("-", "_").split(".")[-1]


def is_option(node: ast.AST | None) -> bool:
    """Whether a node is a call that declares an option, or an argument of one."""
    call = node if isinstance(node, ast.Call) else None
    return call is not None and bool(_DECLARE.match(_leaf(call)))


def declarations(script: Script, name: str) -> Iterator[tuple[Script, ast.Call]]:
    """The calls that declare an option of this name."""
    for call in script.calls:
        if _DECLARE.match(_leaf(call)):
            names = {destination(call), *aliases(call)}
            if plain(name) in {plain(one) for one in names if one}:
                yield script, call


def aliases(call: ast.Call) -> tuple[str, ...]:
    """Every spelling of an option."""
    return tuple(arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str))


def default_of(script: Script, call: ast.Call) -> ast.expr | None:
    """The default of an option."""
    return script.argument(call, "default", 1 if _leaf(call).startswith("DEFINE") else None)


def given_numbers(args: Sequence[str]) -> Iterator[tuple[str, int, str, int]]:
    """Whole numbers on a command line: option, place, text and value of ``--name 5``, ``--name=5``, ``group.name=5``."""
    for at, item in enumerate(args):
        option, equals, text = item.partition("=")
        place = at
        if not equals and item.startswith("-") and at + 1 < len(args):
            place, text = at + 1, args[at + 1]
        number = _whole(text)
        if number is not None and (equals or item.startswith("-")):
            yield option, place, text, number


def _whole(text: str) -> int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None


def _leaf(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
