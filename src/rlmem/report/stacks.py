"""What other training stacks would hold of the same rollout: document and view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.frameworks.stacks import STACKS, materialised
from rlmem.ledger import matches
from rlmem.plan import Plan
from rlmem.planner import Planner
from rlmem.report.view import Column, Section, Table, View
from rlmem.spec import RunSpec
from rlmem.units import format_size

SCHEMA = "rlmem.stacks/1"
#: What a rollout keeps of observations, in the words of the adapters.
_OBSERVED = ("rollout.observations", "rollout.stacked", "rollout.flatten-copy", "rollout.stream", "rollout.extra")


def stacks_document(spec: RunSpec, planner: Planner) -> dict[str, Any]:
    """One row a stack, and this run as it is described and, for a window, with its stream kept once."""
    whole = materialised(spec)
    own = planner.plan(spec, findings=False)
    runs = [("as described", own)]
    if own.spec.window is not None and own.spec.get("storage") != "stream":
        changed = spec.having({"storage": "stream"}, "stacks")
        runs.append(("storage=stream", planner.plan(changed, findings=False)))
    return {
        "schema": SCHEMA,
        "target": own.spec.name,
        "observations_bytes": whole.value,
        "formula": whole.formula,
        "basis": "read from the sources named, nothing measured; observations only",
        "stacks": [
            {
                "name": stack.name,
                "version": stack.version,
                "commit": stack.commit,
                "factor": stack.factor,
                "at_least": stack.at_least,
                "nbytes": stack.factor * whole.value,
                "why": stack.why,
                "source": stack.source,
            }
            for stack in STACKS
        ],
        "runs": [
            {"name": name, "nbytes": observed(plan), "factor": observed(plan) / whole.value} for name, plan in runs
        ],
    }


def observed(plan: Plan) -> int:
    """The most a plan holds of a rollout's observations in one phase."""
    held: dict[str, int] = {}
    for entry in plan.ledger.entries:
        if entry.counts and any(matches(entry.component, name) for name in _OBSERVED):
            held[entry.phase] = held.get(entry.phase, 0) + entry.nbytes
    return max(held.values(), default=0)


def stacks_view(document: Mapping[str, Any]) -> View:
    """A table of sizes, and beneath it what is copied where."""
    rows = [
        (
            f"{row['name']} {row['version']}",
            f"{'≥ ' if row['at_least'] else ''}{row['factor']}×",
            f"{'≥ ' if row['at_least'] else ''}{format_size(row['nbytes'])}",
        )
        for row in document["stacks"]
    ]
    rows += [
        (f"{document['target']} {row['name']}", f"{row['factor']:.3g}×", format_size(row["nbytes"]))
        for row in document["runs"]
    ]
    whole = format_size(document["observations_bytes"])
    table = Table(
        title="observations of a rollout held at once",
        columns=(Column(title="stack", right=False), Column(title="copies"), Column(title="observations")),
        rows=tuple(rows),
        footers=len(document["runs"]),
        note=f"one copy: {document['formula']}",
    )
    lines = tuple(f"{row['name']} {row['commit']} ({row['source']}): {row['why']}" for row in document["stacks"])
    return View(
        title=f"{document['target']}: what other stacks would hold of its observations",
        verdict=((f"every observation whole, once: {whole}", "plain"),),
        sections=(Section(title="Copies", tables=(table,)), Section(title="What is copied", lines=lines)),
        notes=(
            "read from their sources at the commit named, not measured; minibatches, activations and networks come on top",
        ),
    )
