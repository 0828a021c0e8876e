"""The store, for pages and for the API: rows that match, one run's document, two compared."""

from __future__ import annotations

from pathlib import Path

from rlmem.app.compare import compare_documents
from rlmem.app.report import recorded_report
from rlmem.app.runs import list_runs, stored_document
from rlmem.documents.contract import Document
from rlmem.documents.plan import PlanDocument
from rlmem.documents.recorded import RecordedDocument
from rlmem.documents.runs import RunsDocument
from rlmem.runner.store import open_store

MOST_ROWS = 200
#: How long a page waits for a store that somebody else writes to.
BUSY_S = 2.0


def stored_runs(path: Path | None, *, kind: str = "", text: str = "", limit: int = MOST_ROWS) -> RunsDocument:
    """Return the runs that hold every word of a text, newest first."""
    with open_store(path, busy_s=BUSY_S) as store:
        return list_runs(store, kind=kind or None, text=text, limit=limit)


def document(path: Path | None, name: str) -> tuple[Document, str]:
    """Return the document of a run, and its whole id; the name is an id or the start of one, never a path."""
    stored, run = _stored(path, name)
    return (recorded_report(stored) if isinstance(stored, RecordedDocument) else stored), run


def compared(path: Path | None, left: str, right: str) -> Document:
    """Return two runs side by side."""
    sides = [_stored(path, name) for name in (left, right)]
    labels = [f"{stored.target.name} ({name})" if isinstance(stored, PlanDocument) else name for stored, name in sides]
    return compare_documents([stored for stored, _ in sides], labels)


def _stored(path: Path | None, name: str) -> tuple[Document, str]:
    with open_store(path, busy_s=BUSY_S) as store:
        run = store.find(name)
        return stored_document(store, run), run.id
