"""The views of the tables that only ``rlmem serve`` gives out."""

from __future__ import annotations

from rlmem.documents.serve_tables import FieldPart, FieldsDocument, ProcessesDocument, ProcessRow, ZooDocument
from rlmem.report.table import Cell, make_table
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_size

_FIELDS: tuple[Cell[FieldPart], ...] = (
    (Column(title="field", right=False), lambda field: field.path),
    (Column(title="takes", right=False), lambda field: ", ".join(field.choices) or field.kind),
    (Column(title="what it is", right=False), lambda field: field.doc),
)
_PROCESSES: tuple[Cell[ProcessRow], ...] = (
    (Column(title="pid"), lambda process: str(process.pid)),
    (Column(title="RSS"), lambda process: format_size(process.rss_bytes)),
    (Column(title="threads", rank=1), lambda process: str(process.threads)),
    (Column(title="command", right=False), lambda process: process.command),
    (Column(title="looks like training by", right=False, rank=2), lambda process: process.why),
)


def fields_view(document: FieldsDocument) -> View:
    """Arrange the fields of a run's description."""
    return _view("Fields of a run's description", "Fields", make_table(_FIELDS, document.fields))


def zoo_view(document: ZooDocument) -> View:
    """Arrange the list of RL Zoo entries."""
    columns = (Column(title="entry", right=False),)
    table = Table(title="", columns=columns, rows=tuple((entry,) for entry in document.entries))
    return _view("RL Zoo entries", "Entries", table, none="none: rl_zoo3 is not installed")


def processes_view(document: ProcessesDocument) -> View:
    """Arrange the list of processes."""
    return _view(
        "Processes that look like training", "Processes", make_table(_PROCESSES, document.processes), none="none"
    )


def _view(title: str, heading: str, table: Table, none: str = "") -> View:
    section = (
        Section(title=heading, tables=(table,)) if table.rows or not none else Section(title=heading, lines=(none,))
    )
    return View(title=title, verdict=(), sections=(section,))
