"""Interpreters of Python: which one is a run's, and whether it is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rlmem.errors import UsageError

#: Virtual environments that are plain to see beside a script.
_FOLDERS = (".venv", "venv", "env")
#: The oldest Python that the agent runs in.
OLDEST = (3, 8)
#: How far up a virtual environment is looked for; the folder of a repository is always the last.
_LEVELS = 4


def find_python(script: Path | None, beside: Path, python: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """The interpreter of a run and how it was found: named, by shebang, by a virtual environment, or our own."""
    if python is not None:
        return named_python(python), "--python"
    shebang = _shebang(script) if script else None
    if shebang:
        return shebang, f"the first line of {script}"
    for folder in (beside, *beside.parents)[:_LEVELS]:
        for name in _FOLDERS:
            candidate = folder / name / "bin" / "python"
            if (folder / name / "pyvenv.cfg").exists() and os.access(candidate, os.X_OK):
                return str(candidate), f"the virtual environment {folder / name}"
        if (folder / ".git").exists():
            break
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        candidate = Path(environ.get(variable) or "/nonexistent") / "bin" / "python"
        if os.access(candidate, os.X_OK):
            return str(candidate), f"${variable}"
    return sys.executable, "the interpreter rlmem runs in"


def named_python(text: str) -> str:
    """Return the path of an interpreter that is named by a path or a command; ``~`` is the home folder.

    Raises:
        UsageError: there is none, or it is too old.
    """
    path = shutil.which(os.path.expanduser(text))
    if path is None:
        raise UsageError(f"--python {text}: no such interpreter")
    check_python(path)
    return path


def check_python(python: str) -> None:
    """Refuse an interpreter that is too old for what rlmem runs in it; one that does not answer is tried all the same."""
    asked = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return
    found = re.fullmatch(r"(\d+)\.(\d+)", done.stdout.strip())
    if found and (int(found[1]), int(found[2])) < OLDEST:
        needed = ".".join(str(part) for part in OLDEST)
        raise UsageError(f"--python {python} is Python {found[0]}: a run needs Python {needed} or newer")


def _shebang(script: Path) -> str | None:
    """An interpreter named by path in the first line; ``/usr/bin/env python`` says nothing that is plain to see."""
    try:
        with script.open("rb") as file:
            line = file.readline(300).decode("utf-8", "replace").strip()
    except OSError:
        return None
    words = line[2:].split() if line.startswith("#!") else []
    plain = words and "python" in Path(words[0]).name and os.access(words[0], os.X_OK)
    return words[0] if plain else None
