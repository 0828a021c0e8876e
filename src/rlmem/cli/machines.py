"""``rlmem machines``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from rlmem.cli import completion
from rlmem.cli.common import chosen_format, emit, output_options
from rlmem.errors import UsageError


@click.command("machines")
@click.argument("name", required=False, shell_complete=completion.machine)
@click.option("--here", "here_", is_flag=True, help="Every memory limit on this process, and its GPUs.")
@output_options
def command(name: str | None, here_: bool, as_json: bool, format_: str | None, output: Path | None) -> int:
    """List named machines, show one, or say what this process may use.

    \b
    Examples:
      rlmem machines
      rlmem machines rtx-4090
      rlmem machines --here
    """
    from rlmem.machines import MACHINES, find_machine
    from rlmem.report.render import render_view

    wanted = chosen_format(format_, output, as_json=as_json)
    if here_ and name:
        raise UsageError(f"{name} and --here contradict each other; use one")
    if here_:
        emit(render_view(_limits(), _limits_view, wanted, output), output)
        return 0
    machines = (find_machine(name),) if name else MACHINES
    document = [asdict(machine) for machine in machines]
    emit(render_view(document, _machines_view, wanted, output), output)
    return 0


def _limits() -> dict[str, Any]:
    from rlmem.measure.gpus import read_gpus
    from rlmem.measure.limits import cpu_count, read_limits, standing

    limits = read_limits()
    best = standing(limits)
    return {
        "cores": cpu_count(),
        "limits": [
            {
                "kind": x.kind,
                "limit_bytes": x.nbytes,
                "left_bytes": x.left_bytes(),
                "used_bytes": x.used_bytes,
                "detail": x.detail,
                "decides": x is best,
            }
            for x in limits
        ],
        "gpus": [{"name": g.name, "total_bytes": g.total_bytes, "free_bytes": g.free_bytes} for g in read_gpus()],
    }


def _limits_view(document: dict[str, Any]) -> Any:
    from rlmem.report.view import Column, Section, Table, View
    from rlmem.units import format_size

    rows = tuple(
        (
            "→" if x["decides"] else "",
            x["kind"],
            format_size(x["limit_bytes"]),
            format_size(x["left_bytes"]),
            x["detail"],
        )
        for x in document["limits"]
    )
    columns = (
        Column(title=""),
        Column(title="limit", right=False),
        Column(title="at"),
        Column(title="left for a run"),
        Column(title="read from", right=False),
    )
    gpus = tuple(f"GPU: {g['name']}, {format_size(g['total_bytes'])}" for g in document["gpus"]) or ("GPU: none found",)
    lines = (f"cores this process may use: {document['cores']}", *gpus)
    section = Section(title="Limits", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))
    return View(
        title="What this process may use",
        verdict=(),
        sections=(section,),
        notes=("→ is the limit that a plan goes by; what is left of it now is a warning beside the verdict.",),
    )


def _machines_view(document: list[dict[str, Any]]) -> Any:
    from rlmem.report.view import Column, Section, Table, View
    from rlmem.units import format_size

    def size(value: int | None) -> str:
        return "" if value is None else format_size(value)

    rows = tuple(
        (
            m["name"],
            size(m["ram_bytes"]),
            size(m["vram_bytes"]) + (f" ×{m['gpus']}" if m["gpus"] > 1 else ""),
            "one pool" if m["unified"] else "",
            str(m["cores"] or ""),
            m["about"],
        )
        for m in document
    )
    columns = (
        Column(title="name", right=False),
        Column(title="RAM"),
        Column(title="VRAM per GPU"),
        Column(title="unified", rank=1),
        Column(title="cores", rank=2),
        Column(title="what it is", right=False),
    )
    lines = (f"source: {document[0]['source']}",) if len(document) == 1 else ()
    section = Section(title="Machines", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))
    notes = ("Use one with --machine NAME. A card has no RAM of its own: add --ram.",)
    return View(title="rlmem machines", verdict=(), sections=(section,), notes=notes)
