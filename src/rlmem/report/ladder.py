"""The ladder of ``python -m rlmem.swarm ladder`` as a table, and as the part of a page between two marks."""

from __future__ import annotations

import re

from rlmem.documents.ladder import FEW_WINDOWS, MOST_CHUNK, LadderDocument, LadderPointPart, LadderRowPart
from rlmem.errors import UsageError
from rlmem.report.markdown import table_lines
from rlmem.report.table import Cell, make_table
from rlmem.report.text import UNKNOWN
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_size

BEGIN, END = "<!-- ladder -->", "<!-- end -->"
#: A machine with this load before anything was measured is not ours alone.
BUSY = 0.5
_PART = re.compile(f"(?<={BEGIN}\n).*?(?={END})", re.DOTALL)


def ladder_view(document: LadderDocument) -> View:
    """Return the table, and with what it was measured."""
    failed = [
        f"{row.rung}, {point.agents:,} agents: {point.status}: {point.note}"
        for row in document.rows
        for point in row.points
        if point.status != "ok"
    ]
    return View(
        title="the ladder: one thing changes a row",
        verdict=tuple((text, "bad") for text in failed),
        sections=(Section(title="Ladder", tables=(_table(document),)),),
        notes=(_conditions(document), _measured(document)),
    )


def ladder_markdown(document: LadderDocument) -> str:
    """Return the table for a page, with what it was measured on beneath it."""
    return "\n".join([*table_lines(_table(document)), _conditions(document), "", _measured(document), ""])


def check_page(page: str, name: str) -> str:
    """Return a page that has a place for the table; raise ``UsageError`` for one that has none."""
    if not _PART.search(page):
        raise UsageError(f"{name}: no line '{BEGIN}' with a line '{END}' after it; the table goes between the two")
    return page


def rewritten(page: str, document: LadderDocument) -> str:
    """Return a page with its ladder made anew."""
    return _PART.sub(lambda _: ladder_markdown(document), page, count=1)


def _table(document: LadderDocument) -> Table:
    cells: tuple[Cell[LadderRowPart], ...] = (
        (Column(title="rung", right=False), lambda row: row.rung if row.variant is None else ""),
        (
            Column(title="what changes", right=False),
            lambda row: row.title if row.variant is None else f"the same, {row.variant}",
        ),
        (Column(title="stored, B/agent"), lambda row: _whole(row, row.stored_per_agent_bytes)),
        (Column(title="peak planned, B/agent"), lambda row: _whole(row, row.planned_per_agent_bytes)),
        (Column(title="peak measured, B/agent"), lambda row: _whole(row, row.peak_per_agent_bytes)),
        (Column(title="peak in", right=False), lambda row: row.points[-1].phase or UNKNOWN),
        (Column(title="agents"), lambda row: ", ".join(dict.fromkeys(f"{point.agents:,}" for point in _ends(row)))),
        (Column(title="s/iteration"), _seconds),
        (
            Column(title="ms/agent"),
            lambda row: UNKNOWN if row.seconds is None else f"{1000 * row.seconds / row.points[-1].agents:.2f}",
        ),
        (Column(title="plan against peak"), lambda row: UNKNOWN if row.error is None else f"{row.error:+.1%}"),
    )
    return make_table(cells, document.rows)


def _ends(row: LadderRowPart) -> tuple[LadderPointPart, ...]:
    """The points with the fewest and the most agents."""
    return row.points[0], row.points[-1]


def _seconds(row: LadderRowPart) -> str:
    """The time of an iteration, or how a point ended that did not end well."""
    status = next((point.status for point in row.points if point.status != "ok"), None)
    return status or (UNKNOWN if row.seconds is None else f"{row.seconds:.1f}")


def _whole(row: LadderRowPart, value: float | None) -> str:
    """Bytes of an agent; a row with one number of agents has no difference to tell them by."""
    if value is None:
        few, many = _ends(row)
        return "" if few.agents == many.agents else UNKNOWN
    return f"{value:,.0f}"


def _conditions(document: LadderDocument) -> str:
    """What the rows have in common, and where they differ."""
    chunks = sorted({row.chunk for row in document.rows if row.chunk is not None})
    chunk = " or ".join(str(size) for size in chunks) if chunks else str(MOST_CHUNK)
    return (
        f"One fresh process a point, two iterations of 100 steps with one optimizer step in each, chunks of {chunk} agents. "
        "Per agent: the difference of the two numbers of agents; a row with one number has none. Time: the mean iteration of "
        "the larger one. Rungs that keep whole windows learn the autoencoder from all of them, the others from "
        f"a share of {FEW_WINDOWS:g} unless it says ae_share 1."
    )


def _measured(document: LadderDocument) -> str:
    machine, versions = document.machine, document.versions
    ram = "" if machine.get("ram_bytes") is None else f", {format_size(machine['ram_bytes'])}"
    names = ", ".join(f"{name} {text}" for name, text in versions.items())
    threads, load = machine.get("threads"), machine.get("load")
    held = "" if not threads else f", OMP_NUM_THREADS={threads}"
    busy = (
        ""
        if load is None or load < BUSY
        else f"; others used the machine meanwhile (load {load:.1f}), times are too long"
    )
    return f"Measured on {document.date}: {machine['cores']} cores{ram}, {machine['system']}, {names}{held}{busy}."
