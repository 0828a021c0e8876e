"""Tell what kind of target a text names."""

from __future__ import annotations

from pathlib import Path

from rlmem.core.target import RLLIB, Kind, Target, executable_kind, looks_like_run
from rlmem.sources.preset import PRESETS

RUN_FILE_SUFFIXES = (".yaml", ".yml", ".json")


def parse_target(
    text: str, args: tuple[str, ...] = (), *, sets: tuple[str, ...] = (), python: str | None = None
) -> Target:
    """Return the target that a text names; nothing of it is read or started.

    Args:
        text: the target as it was typed.
        args: arguments of a script.
        sets: ``--set`` items.
        python: the interpreter that was named for it.
    """
    return Target(kind=target_kind(text), text=text, args=args, sets=sets, python=python)


def target_kind(text: str) -> Kind:
    """Return the kind of the target that a text names.

    A prefix or a suffix decides first, then the names of presets, then whether there is such a file. What is left and looks
    like an id is a stored run; any other name is taken for a preset, known or not.
    """
    executable = executable_kind(text)
    if executable is not None:
        return executable
    if text.startswith(RLLIB):
        return "rllib"
    if text in PRESETS or not text.strip():
        return "preset"
    path = Path(text)
    if path.suffix.lower() in RUN_FILE_SUFFIXES or _exists(path):
        return "file"
    return "run" if looks_like_run(text) else "preset"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file can have
        return False
