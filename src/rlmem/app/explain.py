"""A process explained as a document: its pages and owners, what the rules see in it, and what they say of its run."""

from __future__ import annotations

from dataclasses import replace

from rlmem.app.advice import advise_on, described, process_budget
from rlmem.documents.explanation import ExplanationDocument, explanation_document
from rlmem.measure.explain import explain, with_limits
from rlmem.rules import find_live


def explained(
    pid: int,
    *,
    tree: bool = True,
    names: bool = True,
    fork_names: bool = False,
    advised: bool = True,
    trim: bool = False,
    unsafe_attach: bool = False,
    timeout_s: float = 2.0,
) -> ExplanationDocument:
    """What ``rlmem explain`` prints with ``--json``."""
    found = explain(
        pid,
        tree=tree,
        names=names,
        fork_names=fork_names,
        unsafe_attach=unsafe_attach,
        trim=trim,
        timeout_s=timeout_s,
    )
    facts = described(found.top) if advised and found.top.way != "pages" else {}
    top = replace(found.top, pauses_s=(*found.top.pauses_s, *facts.get("pauses_s", ())))
    found = replace(found, processes=(top, *found.processes[1:]))
    budget = process_budget(top)
    return explanation_document(
        found,
        findings=find_live(with_limits(found)) if advised else (),
        advice=advise_on(top, facts),
        limit_bytes=budget.ram_bytes,
        limit_source=budget.ram_source,
    )
