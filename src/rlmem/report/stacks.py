"""What other training stacks would hold of the same rollout, as a table."""

from __future__ import annotations

from rlmem.documents.stacks import StacksDocument
from rlmem.report.view import Column, Section, Table, View
from rlmem.units import format_size


def stacks_view(document: StacksDocument) -> View:
    """Return a table of sizes, and beneath it what is copied where."""
    rows = [
        (
            f"{stack.name} {stack.version}",
            f"{'≥ ' if stack.at_least else ''}{stack.factor}×",
            f"{'≥ ' if stack.at_least else ''}{format_size(stack.nbytes)}",
        )
        for stack in document.stacks
    ]
    rows += [(f"{document.target} {run.name}", f"{run.factor:.3g}×", format_size(run.nbytes)) for run in document.runs]
    table = Table(
        title="observations of a rollout held at once",
        columns=(Column(title="stack", right=False), Column(title="copies"), Column(title="observations")),
        rows=tuple(rows),
        footers=len(document.runs),
        note=f"one copy: {document.formula}",
    )
    lines = tuple(f"{stack.name} {stack.commit} ({stack.source}): {stack.why}" for stack in document.stacks)
    return View(
        title=f"{document.target}: what other stacks would hold of its observations",
        verdict=((f"every observation whole, once: {format_size(document.observations_bytes)}", "plain"),),
        sections=(Section(title="Copies", tables=(table,)), Section(title="What is copied", lines=lines)),
        notes=(
            "read from their sources at the commit named, not measured; minibatches, activations and networks come on top",
        ),
    )
