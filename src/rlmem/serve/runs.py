"""The store, for pages and for the API: rows that match, one run's document, two compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlmem.app.report import recorded_report
from rlmem.app.runs import run_row
from rlmem.documents.plan import PlanDocument
from rlmem.report.comparing import compare_documents
from rlmem.report.saved import read_document, run_document
from rlmem.report.view import View
from rlmem.runner.store import open_store

MOST_ROWS = 200
#: How long a page waits for a store that somebody else writes to.
BUSY_S = 2.0


def rows(
    path: Path | None, *, kind: str = "", text: str = "", limit: int = MOST_ROWS
) -> tuple[list[dict[str, Any]], int]:
    """Runs that hold every word of a text, newest first, and how many there are in all."""
    words = text.lower().split()
    with open_store(path, busy_s=BUSY_S) as store:
        runs = store.runs()
        found = [
            run
            for run in runs
            if kind in ("", run.kind)
            and all(
                word in " ".join((run.id, run.kind, run.target, run.status, run.started, *run.command)).lower()
                for word in words
            )
        ]
        return [run_row(store, run) for run in found[:limit]], len(runs)


def document(path: Path | None, name: str) -> tuple[Any, Callable[[Any], View], str]:
    """The document of a run, how to view it, and its whole id; the name is an id or the start of one, never a path."""
    with open_store(path, busy_s=BUSY_S) as store:
        run = store.find(name)
        found, view = read_document(run_document(store, run), f"run {run.id}")
    return (recorded_report(found) if run.kind == "run" else found), view, run.id


def compared(path: Path | None, left: str, right: str) -> tuple[Any, Callable[[Any], View]]:
    """Two runs side by side."""
    sides = [document(path, name) for name in (left, right)]
    labels = [f"{found.target.name} ({name})" if isinstance(found, PlanDocument) else name for found, _, name in sides]
    return compare_documents([found for found, _, _ in sides], labels)
