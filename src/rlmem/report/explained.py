"""A process explained as a document: its pages and owners, what the rules see in it, and what they say of its run."""

from __future__ import annotations

from typing import Any

from rlmem.measure.explain import explain, with_limits
from rlmem.report.explain import explain_document
from rlmem.rules import find_live
from rlmem.trace.advice import advise, process_budget


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
) -> dict[str, Any]:
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
    top = found.top
    budget = process_budget(top)
    return explain_document(
        found,
        findings=find_live(with_limits(found)) if advised else (),
        advice=advise(top) if advised and top.way != "pages" else (),
        limit_bytes=budget.ram_bytes,
        limit_source=budget.ram_source,
    )
