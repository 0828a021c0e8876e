"""The lines of a running program that add to what it holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rlmem.agent import proc
from rlmem.scripts.additions import find_additions

#: A larger file is no script that somebody wrote.
LARGEST_BYTES = 1 << 20
#: Files beside the script that are looked at, too, when it does not add to an owner itself.
MOST_FILES = 50
MOST_LINES = 3


def script_of(pid: int, *, root: str = proc.PROC) -> Path | None:
    """The script that a Python process runs, by its command line; None for a module or a file that is gone."""
    words = [os.fsdecode(word) for word in (proc.read(f"{root}/{pid}/cmdline") or b"").split(b"\0")]
    script = next((word for word in words[1:] if word.endswith(".py")), None)
    if script is None:
        return None
    try:
        path = Path(os.readlink(f"{root}/{pid}/cwd"), script)
    except OSError:
        path = Path(script)
    return path if path.is_file() else None


def added_at(script: Path | None, owner: str, kind: str) -> str:
    """``train.py:38: losses.append(loss)``; several lines of one file; empty where no line is known.

    Args:
        script: The script of the program; the files in its folder are looked at after it.
        owner: The path of a container, as an explanation names it.
        kind: Its type's name.
    """
    for path, text in _files(script) if script is not None else ():
        found = find_additions(text, owner, kind)
        if len(found) == 1:
            return f"{path.name}:{found[0].line}: {found[0].text}"
        if found:
            lines = ", ".join(str(each.line) for each in found[:MOST_LINES])
            return f"{path.name}, lines {lines}" + (" …" if len(found) > MOST_LINES else "")
    return ""


def _files(script: Path) -> Iterator[tuple[Path, str]]:
    beside = sorted(path for path in script.parent.glob("*.py") if path.name != script.name)
    for path in (script, *beside[:MOST_FILES]):
        try:
            if path.stat().st_size <= LARGEST_BYTES:
                yield path, path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
