"""What ``rlmem lint`` says of a script, beside the plan of its dry run: each thing once, and nothing the plan denies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rlmem.core.findings import SEVERITIES, Finding, Place
from rlmem.core.ledger import Leak
from rlmem.core.plan import Budget, Plan
from rlmem.core.target import Target
from rlmem.errors import RlmemError
from rlmem.lint.linter import Linter
from rlmem.lint.settings import Asked, settings_for
from rlmem.process.sources import added_at
from rlmem.rules import CODES, find_rule, rules

#: What compares a run with a machine, which the plan itself does.
_LIMITS = "limits"
_KEPT_GRAPH = "MEM601"


def with_lint(plan: Plan, target: Target, *, described: bool) -> Plan:
    """The plan with the findings of ``rlmem lint`` on its script.

    Where both say the same, the plan's word stands, with the line. Of a run that was ``described``, the plan has judged
    what rules about plans could say; what it did not find there is not said.
    """
    judged = {rule.code for rule in rules("plan") if described or rule.family == _LIMITS}
    written = lint_findings(target, plan.budget)
    lines = {finding.code: finding.place for finding in reversed(written)}
    own = tuple(replace(each, place=each.place or lines.get(each.code)) for each in plan.findings)
    said = {finding.code for finding in own} | judged
    added = tuple(finding for finding in written if finding.code not in said)
    findings = sorted((*own, *added), key=lambda each: SEVERITIES.index(each.severity))
    return replace(plan, findings=tuple(findings))


def lint_findings(target: Target, budget: Budget) -> tuple[Finding, ...]:
    """What ``rlmem lint`` says of a target that is a script."""
    if target.kind != "script":
        return ()
    path = Path(target.text)
    try:
        report = Linter(settings_for([path], Asked()), budget).lint(path)
    except RlmemError:
        return ()
    about_runs = (found.finding for found in report.shown if found.finding.code in CODES)  # not about comments
    return tuple(replace(finding, location=_line(finding.place)) for finding in about_runs)


def _line(place: Place | None) -> str | None:
    return None if place is None else f"{Path(place.path).name}:{place.line}"


def with_cause(plan: Plan, leak: Leak, target: Target) -> Plan:
    """The plan of a loop that grows, with where its source adds to what grows; the findings about that come first."""
    if target.kind != "script" or leak.owner is None:
        return plan
    where = added_at(Path(target.text), leak.owner, leak.kind)
    line = where.split(": ", 1)[0]
    about = [each for each in plan.findings if each.location == line or _names(each.title, leak.owner)]
    if leak.keeps_graphs and not any(each.code == _KEPT_GRAPH for each in about):
        about.insert(0, _kept_graphs(leak.owner, line))
    findings = (*about, *(each for each in plan.findings if each not in about))
    notes = plan.notes if about or not where else (f"{leak.owner} grows at {where}", *plan.notes)
    return replace(plan, findings=findings, notes=notes)


def _names(title: str, owner: str) -> bool:
    """Whether a title names what is called ``self.losses`` here and ``Agent.losses`` there."""
    return owner.rsplit(".", 1)[-1] in {word.rsplit(".", 1)[-1] for word in title.split()}


def _kept_graphs(owner: str, line: str) -> Finding:
    """What the rule about kept graphs says of a list that was seen to keep them; its source did not show it."""
    rule, _ = find_rule(_KEPT_GRAPH)
    return rule.finding(
        f"{owner} keeps tensors with the graphs that computed them",
        location=line or None,
        remedy="keep .item() for a number, .detach() for a tensor without its history",
    )
