"""Undo what a dry run did to files, from the agent's journal, last line first."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rlmem.agent.protocol import JournalRow


def undo(journal: Path) -> tuple[str, ...]:
    """Put everything back; what could not be is said, with where its copy lies."""
    try:
        lines = journal.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    failures: list[str] = []
    with _undisturbed():
        for line in reversed(lines):
            try:
                row = json.loads(line)
            except ValueError:  # cut short when the child was killed in the middle of it: nothing had happened yet
                continue
            try:
                _undo(row)
            except OSError as error:
                path, copy = row.get("changed") or row.get("made") or row.get("moved"), row.get("copy")
                kept = f"; a copy is at {copy}" if copy else ""
                failures.append(f"could not put back {path}: {error.strerror or error}{kept}")
    return tuple(failures)


def _undo(row: JournalRow) -> None:
    if "made" in row:
        _remove(Path(row["made"]))
    elif "link" in row:
        path = Path(row["link"])
        if path.is_symlink() and os.readlink(path) == row["to"]:
            return
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(row["to"])
    elif "emptied" in row:
        Path(row["emptied"]).mkdir(parents=True, exist_ok=True)
    elif "moved" in row:
        source, target = Path(row["moved"]), Path(row["to"])
        if os.path.lexists(target) and not os.path.lexists(source):
            source.parent.mkdir(parents=True, exist_ok=True)
            target.rename(source)
    else:
        _restore(Path(row["changed"]), Path(row["copy"]))


def _restore(path: Path, copy: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not copy.is_dir():
        shutil.copy2(copy, path)
        return
    # Beside it first: what is there goes only when its successor is whole.
    beside = path.with_name(f".rlmem-{os.getpid()}-{path.name}")
    shutil.copytree(copy, beside, symlinks=True)
    shutil.rmtree(path, ignore_errors=True)
    beside.rename(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        if not any(path.iterdir()):  # only what is empty once the files made in it are gone
            path.rmdir()
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C and the like wait until everything is back."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
