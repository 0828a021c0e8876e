"""Many files: in this process when they are few, in a few processes when they are not; reports come in order."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

from rlmem.lint.files import Problem, relative
from rlmem.lint.linter import FileReport, Linter
from rlmem.process.limits import cpu_count

#: Below this, starting processes takes longer than they save.
FEW = 48
_CHUNK = 8
_MOST = 8
#: Parsed files are many objects in no cycles; looking for cycles all the time makes parsing a quarter slower.
_PATIENCE = 200_000

_linter: Linter


def lint_many(linter: Linter, paths: Sequence[Path], processes: int | None = None) -> Iterator[FileReport]:
    """A report for every path, in their order."""
    processes = processes or min(cpu_count(), _MOST)
    before = gc.get_threshold()
    gc.set_threshold(_PATIENCE, *before[1:])
    try:
        if len(paths) < FEW or processes < 2:
            yield from map(linter.lint, paths)
        else:
            yield from _shared(linter, paths, processes)
    finally:
        gc.set_threshold(*before)


def _shared(linter: Linter, paths: Sequence[Path], processes: int) -> Iterator[FileReport]:
    """Chunk by chunk; when a file takes its process with it, the chunk that waited goes file by file, then on as before."""
    left = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
    while left:
        done = 0
        with suppress(BrokenProcessPool):
            for reports in _pooled(linter, left, processes):
                yield from reports
                done += 1
        left = left[done:]
        if left:
            yield from (_alone(linter, path) for path in left.pop(0))


def _pooled(linter: Linter, chunks: Sequence[Sequence[Path]], processes: int) -> Iterator[list[FileReport]]:
    with ProcessPoolExecutor(processes, initializer=_begin, initargs=(linter,)) as pool:
        waiting: list[Future[list[FileReport]]] = []
        try:
            waiting = [pool.submit(_lint, chunk) for chunk in chunks]
            for future in waiting:
                yield future.result()
        finally:
            for future in waiting:
                future.cancel()


def _alone(linter: Linter, path: Path) -> FileReport:
    """One file in a process of its own."""
    try:
        return next(_pooled(linter, [[path]], 1))[0]
    except BrokenProcessPool:
        shown = relative(path, linter.here)
        problem = Problem(path=shown, text="Python itself ended while it parsed this; skipped")
        return FileReport(path=shown, key=relative(path, linter.settings.root), problem=problem)


def _begin(linter: Linter) -> None:
    """Once in every process; an interrupt is the main process's matter."""
    global _linter  # noqa: PLW0603 - what a pool's process keeps between its tasks
    _linter = linter
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(_PATIENCE, *gc.get_threshold()[1:])


def _lint(paths: Sequence[Path]) -> list[FileReport]:
    return [_linter.lint(path) for path in paths]
