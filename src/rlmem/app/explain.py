"""What holds the memory of a running process: its pages and owners, what the rules see in it and what they say of its run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlmem.app.advice import advise_on, described, process_budget
from rlmem.documents.explanation import ExplanationDocument, explanation_document
from rlmem.errors import AnalysisError, UsageError
from rlmem.process.explain import explain_tree, with_limits
from rlmem.process.limits import read_limits
from rlmem.process.processes import Process, by_name
from rlmem.rules import find_live


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """A process to explain, and what to read of it.

    Attributes:
        pid: the process.
        tree: explain its children too.
        names: ask the program for the names of its objects.
        fork_names: ask forked workers for names too, which copies pages that they share with their parent, for good.
        advice: say what the rules see in the process and what they say of its run.
        trim: call ``malloc_trim`` in the program and say what that gave back.
        unsafe_attach: without an agent, let a debugger start one, which can crash the program.
        timeout_s: how long to wait for an answer of a process.
    """

    pid: int
    tree: bool = True
    names: bool = True
    fork_names: bool = False
    advice: bool = True
    trim: bool = False
    unsafe_attach: bool = False
    timeout_s: float = 2.0


def explain(request: ExplainRequest) -> ExplanationDocument:
    """Explain what holds the memory of a process.

    Args:
        request: the process, and what to read of it.

    Returns:
        Its memory by object, by class and what is left; its children; findings and advice.

    Raises:
        AnalysisError: there is no such process, or it may not be looked at.
    """
    tree = explain_tree(
        request.pid,
        tree=request.tree,
        names=request.names,
        fork_names=request.fork_names,
        unsafe_attach=request.unsafe_attach,
        trim=request.trim,
        timeout_s=request.timeout_s,
    )
    facts = described(tree.top) if request.advice and tree.top.way != "pages" else {}
    top = replace(tree.top, pauses_s=(*tree.top.pauses_s, *facts.get("pauses_s", ())))
    tree = replace(tree, processes=(top, *tree.processes[1:]))
    limits = read_limits(pid=str(top.pid))
    budget = process_budget(top, limits)
    return explanation_document(
        tree,
        findings=find_live(with_limits(tree, limits)) if request.advice else (),
        advice=advise_on(top, facts, budget),
        limit_bytes=budget.ram_bytes,
        limit_source=budget.ram_source,
    )


def process_named(text: str) -> int:
    """Return the number of the process whose command holds a text; raise an error unless there is exactly one."""
    processes = by_name(text)
    if not processes:
        raise AnalysisError(f"no process has {text!r} in its command")
    if len(processes) > 1:
        listed = _listed(processes)
        raise UsageError(f"{len(processes)} processes have {text!r} in their command; give one number: {listed}")
    return processes[0].pid


def _listed(processes: tuple[Process, ...]) -> str:
    shown = "; ".join(f"{process.pid} ({process.command[:60]})" for process in processes[:8])
    return shown + ("; …" if len(processes) > 8 else "")
