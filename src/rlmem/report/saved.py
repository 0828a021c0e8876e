"""Results that were kept: documents of any kind read again, and stored runs as documents."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlmem.documents.contract import Document, schema_name
from rlmem.documents.kinds import KINDS, kind_name, kind_of
from rlmem.documents.kinds import read_document as read_typed
from rlmem.errors import UsageError
from rlmem.report.views import view_of

if TYPE_CHECKING:
    from rlmem.report.view import View
    from rlmem.runner.store import Run, Store

#: Schema to the module that knows it, its reader and its view.
DOCUMENTS = {}


def read_document(data: Any, where: str) -> tuple[Any, Callable[[Any], View]]:
    """A document of any kind and version, checked, and the function that views it; one of a class is none to be read."""
    if isinstance(data, Document):
        return data, view_of
    schema = schema_name(data, where)
    if kind_name(schema) in KINDS:
        return read_typed(data, where), view_of
    if schema not in DOCUMENTS:
        readable = sorted((*DOCUMENTS, *(kind_of(name).SCHEMA for name in KINDS)))
        raise UsageError(f"{where}: schema {schema!r} is not one this version reads; it reads {', '.join(readable)}")
    home, reader, view_home, view = DOCUMENTS[schema]
    return getattr(import_module(home), reader)(data, where), getattr(import_module(view_home), view)


def run_document(store: Store, run: Run) -> Any:
    """The document of a stored run; made of points or moments where it has them, so one cut short has one too."""
    if run.kind == "run":
        from rlmem.app.recorded import stored_recording

        return stored_recording(store, run)
    if run.kind != "measure":
        return run.document
    from rlmem.app.runs import stored_sweep

    return stored_sweep(store, run)
