"""Stored runs: the sweep of one, and one in short."""

from __future__ import annotations

from collections.abc import Sequence

from rlmem.app.recorded import stored_recording
from rlmem.documents.contract import Document
from rlmem.documents.kinds import read_document
from rlmem.documents.runs import RunRow, RunsDocument
from rlmem.documents.sweep import SweepDocument, in_order
from rlmem.runner.store import Run, Store, open_store
from rlmem.runner.sweep import stored_settings


def stored_sweep(store: Store, run: Run) -> SweepDocument:
    """Return a run of ``rlmem measure`` as a document, of the points it has so far."""
    asked = stored_settings(run)
    return SweepDocument(
        rlmem=run.versions.get("rlmem", ""),
        run=run.id,
        target=run.target,
        command=run.command,
        started=run.started,
        status=run.status,
        machine=run.machine,
        axes=asked.axes,
        repeat=asked.repeat,
        options=asked.options,
        points=in_order(asked.axes, store.points(run.id)),
    )


def stored_document(store: Store, run: Run) -> Document:
    """Return the document of a stored run; made of points or moments where it has them, so one cut short has one too."""
    if run.kind == "run":
        return stored_recording(store, run)
    if run.kind == "measure":
        return stored_sweep(store, run)
    return read_document(run.document, f"run {run.id}")


def list_runs(store: Store, *, kind: str | None = None, text: str = "", limit: int | None = None) -> RunsDocument:
    """Return stored runs, the newest first.

    Args:
        store: where they are kept.
        kind: only runs of this one.
        text: only runs that hold every word of it.
        limit: at most so many.
    """
    words = tuple(text.lower().split())
    runs = store.runs(kind=kind, limit=None if words else limit)
    matching = [run for run in runs if all(word in _searched(run) for word in words)]
    rows = tuple(run_row(store, run) for run in matching[:limit])
    return RunsDocument(store=str(store.path), runs=rows, total=store.count())


def _searched(run: Run) -> str:
    return " ".join((run.id, run.kind, run.target, run.status, run.started, *run.command)).lower()


def delete_runs(prefixes: Sequence[str]) -> tuple[str, ...]:
    """Forget runs named by the start of their ids, and return the ids; none is forgotten where one is not there."""
    with open_store(write=True) as store:
        names = tuple(dict.fromkeys(store.find(prefix).id for prefix in prefixes))
        for name in names:
            store.delete(name)
    return names


def run_row(store: Store, run: Run) -> RunRow:
    """Return a run in short, as lists of runs have it."""
    points = store.points(run.id)
    return RunRow(
        id=run.id,
        kind=run.kind,
        target=run.target,
        command=run.command,
        started=run.started,
        finished=run.finished,
        status=run.status,
        points=len(points),
        peak_bytes=max(
            (point.peak_bytes for point in points if point.is_ok and point.peak_bytes), default=_recorded_peak(run)
        ),
        machine=run.machine,
        versions=run.versions,
    )


def _recorded_peak(run: Run) -> int | None:
    """The peak of a run of ``rlmem run`` that has ended, or the RAM that a plan expects."""
    if run.kind == "plan":
        tops = [peak for peak in run.document.get("peaks", ()) if peak.get("is_peak", True) and peak["device"] == "ram"]
        return tops[0]["expected_bytes"] if tops else None
    ended = run.document.get("ended") if run.kind == "run" else None
    return ended["peak"]["nbytes"] or None if ended else None
