"""What a shell offers at TAB: names of ours beside names of files, never instead of them.

click asks these functions when a shell's completion script calls ``rlmem`` (docs/commands.md says how to load it).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from click import Context, Parameter
from click.shell_completion import BashComplete, CompletionItem, FishComplete, add_completion_class

from rlmem.errors import RlmemError

Item = CompletionItem[Any]
Complete = Callable[[Context, Parameter, str], list[Item]]
#: Stored runs that are offered, newest first.
MOST_RUNS = 20


def offered(*tables: Callable[[], Iterable[tuple[str, str]]], files: bool = False, listed: bool = False) -> Complete:
    """A completion of names with their meaning, and of files.

    Args:
        tables: each gives names and what they mean.
        files: whether a file is an answer as well.
        listed: whether the answer is a list with commas; its last name is completed.
    """

    def complete(context: Context, parameter: Parameter, incomplete: str) -> list[Item]:
        before, comma, last = incomplete.rpartition(",") if listed else ("", "", incomplete)
        names = (row for table in tables for row in table())
        items = [
            CompletionItem(f"{before}{comma}{name}", help=about)
            for name, about in names
            if name.lower().startswith(last.lower())
        ]
        return items + ([CompletionItem(incomplete, type="file")] if files else [])

    return complete


def _presets() -> Iterable[tuple[str, str]]:
    from rlmem.sources.preset import PRESETS

    return PRESETS.items()


def _machines() -> Iterable[tuple[str, str]]:
    from rlmem.core.machines import MACHINES

    return ((machine.name, machine.about) for machine in MACHINES)


def _rules() -> Iterable[tuple[str, str]]:
    from rlmem.rules import CODES

    return CODES.items()


def _runs() -> Iterator[tuple[str, str]]:
    from rlmem.runner.store import open_store

    try:
        with open_store(busy_s=0.2) as store:
            kept = store.runs(limit=MOST_RUNS)
    except (RlmemError, OSError):  # a shell's prompt is no place for an error
        return
    for run in kept:
        yield run.id, f"{run.kind} of {run.target}, {run.started}"


def _programs() -> Iterator[tuple[str, str]]:
    for folder in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        try:
            entries = sorted(
                entry.name for entry in os.scandir(folder) if entry.is_file() and os.access(entry, os.X_OK)
            )
        except OSError:
            continue
        yield from ((name, folder) for name in entries)


def command_words(context: Context, parameter: Parameter, incomplete: str) -> list[Item]:
    """A program first, then whatever it takes, which may be files."""
    is_first = not context.params.get(parameter.name or "")
    return (program if is_first and incomplete else files)(context, parameter, incomplete)


files = offered(files=True)
program = offered(_programs, files=True)
preset = offered(_presets)
target = offered(_presets, files=True)
run_or_file = offered(_runs, files=True)
target_or_run = offered(_presets, _runs, files=True)
run = offered(_runs)
machine = offered(_machines)
machines = offered(_machines, listed=True)
rule = offered(_rules)
rules = offered(_rules, listed=True)

# Names stand beside files, and where there is nothing to offer readline completes as it does for any program: click's own
# script offers names or files, and nothing for the words after '--'.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response line files=
    response=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(complete_var)s=bash_complete $1)
    for line in $response; do
        case $line in
            plain,*) COMPREPLY+=("${line#plain,}") ;;
            file,*) files=1 ;;
            dir,*) compopt -o dirnames ;;
        esac
    done
    if [[ $files && ${#COMPREPLY[@]} -gt 0 ]]; then
        compopt -o filenames
        COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}
complete -o nosort -o bashdefault -o default -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """Names beside files."""

    source_template: ClassVar[str] = _BASH


class Fish(FishComplete):
    """Names with commas in them stay whole, and files are completed as fish does itself, "~" and all."""

    source_template: ClassVar[str] = FishComplete.source_template.replace(
        "string split ", "string split --max 1 "
    ).replace("__fish_complete_path $metadata[2]", 'complete -C "__fish_command_without_completions $metadata[2]"')


def register() -> None:
    """Use these scripts instead of click's."""
    add_completion_class(Bash)
    add_completion_class(Fish)
