"""Advice on a running process: the rules and remedies of a plan, and what each would give back here and now."""

from __future__ import annotations

from collections.abc import Iterable

from rlmem.agent.protocol import DescribeAnswer, DescribedFacts
from rlmem.core.components import STANDING
from rlmem.core.findings import Advice, Finding
from rlmem.core.holdings import Explanation
from rlmem.core.plan import Budget, Plan
from rlmem.core.subject import Subject
from rlmem.errors import RlmemError
from rlmem.planner import ClosedForm
from rlmem.process import attach
from rlmem.process.explain import explain_process
from rlmem.process.limits import Limit, read_limits, tightest
from rlmem.rules import find
from rlmem.runner.guarding import Load
from rlmem.trace.describe import from_facts
from rlmem.units import format_size


def advise(process: Explanation, budget: Budget | None = None, *, timeout_s: float = 5.0) -> tuple[Advice, ...]:
    """Return what the rules say of the model a process trains; nothing when there is none they know.

    Args:
        process: what the process holds.
        budget: what there is; by default what the process may reach.
        timeout_s: how long to wait for its answer.
    """
    facts = described(process, timeout_s=timeout_s)
    return advise_on(process, facts, budget or process_budget(process, read_limits(pid=str(process.pid))))


def described(process: Explanation, *, timeout_s: float = 5.0) -> DescribeAnswer:
    """Return the model a process trains, as its agent describes it; nothing when there is none, or nobody to ask."""
    try:
        answer: DescribeAnswer = attach.ask(process.pid, {"ask": "describe"}, timeout_s=timeout_s)
    except RlmemError:
        return {}
    return answer


def advise_on(process: Explanation, facts: DescribedFacts, budget: Budget) -> tuple[Advice, ...]:
    """Return what the rules say of a model that its process has described."""
    if not facts.get("model"):
        return ()
    try:
        spec = from_facts(facts["model"]["algorithm"], facts)
        subject = ClosedForm().subject(spec, budget)
        findings = find(subject)
    except RlmemError:
        return ()
    return tuple(Advice(finding=finding, returns_bytes=_returned(process, subject, finding)) for finding in findings)


def advice_lines(pid: int, limit: Load | None) -> tuple[str, ...]:
    """Return what the planner's rules would change in a process's run under its limit, the largest saving first."""
    budget = Budget(name=limit.name, ram_bytes=limit.limit, ram_source=limit.name) if limit else None
    findings = [advice.finding for advice in advise(explain_process(pid), budget)]
    savings = [(finding.saves_bytes or 0, finding.remedy) for finding in findings if finding.remedy]
    saving = sorted((pair for pair in savings if pair[0]), reverse=True)
    return tuple(f"{remedy} (saves {format_size(nbytes)})" for nbytes, remedy in saving[:3])


def process_budget(process: Explanation, limits: Iterable[Limit]) -> Budget:
    """Return what a process may reach: the one of the limits on it that leaves the least."""
    limit = tightest(limits, own_bytes=process.rss_bytes)
    if limit is None:
        return Budget(name="this process")
    return Budget(
        name="this process",
        ram_bytes=limit.left_bytes(own_bytes=process.rss_bytes),
        ram_source=f"{limit.kind} ({limit.detail})",
    )


def _returned(process: Explanation, subject: Subject, finding: Finding) -> int | None:
    """The share a remedy takes off each standing component, of what the process holds of it now."""
    if not finding.changes or not finding.saves_bytes:
        return None
    try:
        after = subject.changed(dict(finding.changes))
    except RlmemError:
        return None
    returned = 0
    for group, word in STANDING.items():
        before_bytes, after_bytes = (_component(judged, group) for judged in (subject.plan, after))
        if before_bytes and after_bytes < before_bytes:
            held_bytes = sum(holding.resident_bytes for holding in process.holdings if word in holding.path)
            returned += round(held_bytes * (1 - after_bytes / before_bytes))
    return returned or None


def _component(plan: Plan, group: str) -> int:
    return plan.ledger.only(device="ram", phase="collect", component=group).nbytes
