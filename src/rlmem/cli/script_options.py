"""Options of a script that were written as if they were rlmem's own: the command as it was meant."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click


def as_meant(error: click.NoSuchOption, argv: Sequence[str]) -> str | None:
    """The command with unknown options after ``--``; ``None`` where no target that takes arguments stands before them.

    Args:
        error: what click says of the first unknown option.
        argv: everything after ``rlmem``.
    """
    from rlmem.core.target import executable_kind

    context = error.ctx
    if context is None or not any(
        isinstance(each, click.Argument) and each.nargs == -1 for each in context.command.params
    ):
        return None
    known = {name: each for each in context.command.params if isinstance(each, click.Option) for name in each.opts}
    words, given = _split(argv)
    own: list[str] = []
    script: list[str] = []
    place = own
    values = 0
    for word in words:
        option = known.get(word.split("=")[0])
        if values:
            values -= 1
        elif option is not None:
            place = own
            values = 0 if option.is_flag or "=" in word else option.nargs
        elif word.startswith("-") and word != "-":
            place = script
        place.append(word)
    if not any(executable_kind(word) for word in own[1:]):
        return None
    return shlex.join(["rlmem", *own, "--", *script, *given])


def _split(argv: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What stands before ``--`` and after it."""
    at = argv.index("--") if "--" in argv else len(argv)
    return argv[:at], argv[at + 1 :]
