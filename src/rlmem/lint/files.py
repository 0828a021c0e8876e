"""Which files are linted: those that are named, and those found in the folders that are named."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rlmem.lint.globs import matches

SUFFIXES = (".py", ".ipynb")
#: Folders that hold other people's code, or nobody's; those whose name starts with a dot are left out too.
SKIPPED = frozenset(
    ("__pycache__", "__pypackages__", "build", "dist", "node_modules", "site-packages", "venv", "wheels")
)
#: What marks a virtual environment, whatever it is called.
_MARK = "pyvenv.cfg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that was asked for and not analysed; ``failed`` when that is a fault and not a matter of policy."""

    path: str
    text: str
    failed: bool = True

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def discover(
    named: Iterable[Path], exclude: tuple[str, ...], root: Path, tell: Callable[[Problem], None]
) -> tuple[Path, ...]:
    """The files to lint, each once, in a stable order; what cannot be looked into is told.

    Patterns of ``exclude`` count from ``root``, and hold for files that are named too; what :data:`SKIPPED` holds does
    not. A link to a folder is not followed: what it leads to is linted where it is.
    """
    found: dict[str, Path] = {}
    for path in named:
        if matches(relative(path, root), exclude):
            continue
        for file in _within(path, exclude, root, tell):
            found.setdefault(os.path.realpath(file), file)
    return tuple(found.values())


def relative(path: Path, root: Path) -> str:
    """A path as it is seen from a folder, with forward slashes; whole when it is elsewhere."""
    whole = os.path.abspath(path)
    inside = os.path.relpath(whole, root) if os.path.splitdrive(whole)[0] == os.path.splitdrive(root)[0] else whole
    return (whole if inside.startswith("..") else inside).replace(os.sep, "/")


def _within(path: Path, exclude: tuple[str, ...], root: Path, tell: Callable[[Problem], None]) -> Iterator[Path]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        tell(Problem(path=str(path), text=why(error)))
        return
    if stat.S_ISDIR(mode):
        yield from _walk(path, exclude, root, tell)
    elif not stat.S_ISREG(mode):  # a pipe would be waited for
        tell(Problem(path=str(path), text="not a regular file"))
    elif path.suffix in SUFFIXES or _is_python(path):
        yield path
    else:
        tell(Problem(path=str(path), text="neither Python (.py) nor a notebook (.ipynb)"))


def _is_python(path: Path) -> bool:
    """A file without a suffix that says itself that Python runs it."""
    try:
        with path.open("rb") as stream:
            first = stream.readline(200)
    except OSError:
        return False
    return not path.suffix and first.startswith(b"#!") and b"python" in first


def _walk(folder: Path, exclude: tuple[str, ...], root: Path, tell: Callable[[Problem], None]) -> Iterator[Path]:
    """The files of a folder and of those in it, however deep, in the order of their names."""
    open_folders = [_entries(folder, tell)]
    while open_folders:
        entry = next(open_folders[-1], None)
        if entry is None:
            open_folders.pop()
            continue
        path = Path(entry.path)
        try:
            is_folder = entry.is_dir()
            is_file = entry.is_file()
        except OSError as error:  # a link to itself, or to what cannot be looked at
            tell(Problem(path=entry.path, text=f"{why(error)}; skipped", failed=False))
            continue
        if is_folder and entry.is_symlink():
            if _leads_back(path):
                text = "a link that leads back to a folder it is in; skipped"
                tell(Problem(path=entry.path, text=text, failed=False))
        elif is_folder and not _left_out(entry) and not matches(relative(path, root), exclude):
            open_folders.append(_entries(path, tell))
        elif path.suffix in SUFFIXES and entry.is_symlink() and not path.exists():
            tell(Problem(path=entry.path, text="a link that leads nowhere; skipped", failed=False))
        elif is_file and path.suffix in SUFFIXES and not matches(relative(path, root), exclude):
            yield path


def _entries(folder: Path, tell: Callable[[Problem], None]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as listed:
            return iter(sorted(listed, key=lambda entry: entry.name))
    except OSError as error:
        tell(Problem(path=str(folder), text=why(error)))
        return iter(())


def _left_out(entry: os.DirEntry[str]) -> bool:
    return entry.name in SKIPPED or entry.name.startswith(".") or os.path.exists(os.path.join(entry.path, _MARK))


def _leads_back(path: Path) -> bool:
    target = Path(os.path.realpath(path))
    here = Path(os.path.realpath(path.parent))
    return target == here or target in here.parents


def why(error: OSError) -> str:
    """What the system says, without the name of the file."""
    return (error.strerror or str(error)).lower()
