"""Machines and limits, as views."""

from __future__ import annotations

from rlmem.documents.limits import LimitsDocument
from rlmem.documents.machines import MachinesDocument
from rlmem.report.text import size
from rlmem.report.view import Column, Section, Table, View


def limits_view(document: LimitsDocument) -> View:
    """Arrange what ``rlmem machines --here`` shows."""
    columns = (
        Column(title=""),
        Column(title="limit", right=False),
        Column(title="at"),
        Column(title="left for a run"),
        Column(title="read from", right=False),
    )
    rows = tuple(
        ("→" if limit.decides else "", limit.kind, size(limit.limit_bytes), size(limit.left_bytes), limit.detail)
        for limit in document.limits
    )
    gpus = tuple(f"GPU: {gpu.name}, {size(gpu.total_bytes)}" for gpu in document.gpus) or ("GPU: none found",)
    lines = (f"cores this process may use: {document.cores}", *gpus)
    section = Section(title="Limits", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))
    return View(
        title="What this process may use",
        verdict=(),
        sections=(section,),
        notes=("→ is the limit that a plan goes by; what is left of it now is a warning beside the verdict.",),
    )


def machines_view(document: MachinesDocument) -> View:
    """Arrange rows of the catalogue of machines; of a single one also where its figures are from."""
    machines = document.machines
    columns = (
        Column(title="name", right=False),
        Column(title="RAM"),
        Column(title="VRAM per GPU"),
        Column(title="unified", rank=1),
        Column(title="cores", rank=2),
        Column(title="what it is", right=False),
    )
    rows = tuple(
        (
            machine.name,
            size(machine.ram_bytes, ""),
            size(machine.vram_bytes, "") + (f" ×{machine.gpus}" if machine.gpus > 1 else ""),
            "one pool" if machine.unified else "",
            str(machine.cores or ""),
            machine.about,
        )
        for machine in machines
    )
    lines = (f"source: {machines[0].source}",) if len(machines) == 1 else ()
    section = Section(title="Machines", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))
    notes = ("Use one with --machine NAME. A card has no RAM of its own: add --ram.",)
    return View(title="rlmem machines", verdict=(), sections=(section,), notes=notes)
