"""The report of a planned run as one page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

from rlmem.core.fields import fields_diff, flatten
from rlmem.documents.fit import RemedyPart
from rlmem.documents.parts import FindingPart
from rlmem.documents.placement import PlacementDocument
from rlmem.documents.plan import PlanDocument
from rlmem.documents.report import EnvironmentPart, ReportDocument
from rlmem.documents.sweep import SweepDocument
from rlmem.report.html import curve_parts, parts, plan_parts
from rlmem.report.html.markup import Child, element
from rlmem.report.placement import placement_notes, placement_sections
from rlmem.report.plan import finding_item
from rlmem.report.sweep_view import points_table
from rlmem.report.text import UNKNOWN
from rlmem.report.view import Column, Table
from rlmem.units import format_size

_KINDS = {
    "lossless": ("good", "learning does not change: the learner sees the same numbers"),
    "speed": ("warn", "learning does not change, or all but: it takes longer"),
    "learning": ("bad", "learning changes"),
}


def report_sections(document: ReportDocument) -> list[Element]:
    """The sections of a plan's report, in the order in which they are read."""
    plan = document.plan
    return [
        element("section", {"id": "verdict", "aria-label": "Verdict"}, plan_parts.verdict(plan)),
        *(nodes(plan.placement) if plan.placement else []),
        plan_parts.components(plan),
        plan_parts.phases(plan),
        curve_parts.growth(document.growth),
        measured(document.measured, plan.target.name, document.differs),
        curve_parts.capacity(document.capacity, plan.machine.name),
        findings(plan, document.remedies),
        plan_parts.processes(plan),
        plan_parts.certainty(plan),
        environment(document.environment, document.command, plan),
    ]


def report_title(document: ReportDocument) -> tuple[str, str]:
    """The title of the page and a line beneath it."""
    target = document.plan.target
    return target.name, target.about or ""


def nodes(placement: PlacementDocument) -> list[Element]:
    """Where it goes on the nodes that were named."""
    sections = [replace(each, title=f"On the nodes: {each.title}") for each in placement_sections(placement)]
    notes = (element("p", {}, parts.said(note)) for note in placement_notes(placement))
    return [*(parts.of_section(each) for each in sections), element("section", {"class": "notes"}, notes)]


def measured(sweep: SweepDocument | None, target: str, differs: Sequence[str]) -> Element:
    """Predicted beside measured, where somebody has measured; ``differs`` are settings in which that was another run."""
    title, name = "Predicted beside measured", "measured"
    if sweep is None:
        words = f"Not measured yet. `rlmem measure {target}` runs it in a fresh process and keeps the truth; a report written after that shows it here."
        return parts.section(title, element("p", {}, parts.said(words)), name=name)
    note = f"rlmem measure, run {sweep.run}, {sweep.started}"
    shown = [(row, row.measured_bytes, row.predicted) for row in sweep.rows if row.measured_bytes and row.predicted]
    top = max((max(nbytes, predicted.high) for _, nbytes, predicted in shown), default=1)
    bars: list[Child] = [
        _pair(_values_text(row.values), predicted.expected, nbytes, top) for row, nbytes, predicted in shown
    ]
    other = f"Measured with other settings than this plan: {', '.join(differs)}." if differs else ""
    components = [
        (
            part.component,
            format_size(part.measured_bytes),
            "" if part.predicted_bytes is None else format_size(part.predicted_bytes),
        )
        for part in (shown[-1][0].components if shown else ())
    ]
    columns = (Column(title="component", right=False), Column(title="measured"), Column(title="predicted"))
    table = Table(title="", columns=columns, rows=tuple(components))
    return parts.section(
        title,
        parts.verdict([(other, "warn")]) if other else None,
        element("div", {"class": "pairs"}, bars),
        parts.table(points_table(sweep), caption="Points"),
        parts.unfold("By component, at the last point", parts.table(table, caption="Components"))
        if components
        else None,
        name=name,
        note=note,
    )


def _values_text(values: Mapping[str, int | str]) -> str:
    return ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in values.items()
    )


def _pair(words: str, predicted: int, measured: int, top: int) -> Element:
    def bar(word: str, nbytes: int, look: str) -> Element:
        return element("div", {"class": "bar"}, parts.bar_line(word, nbytes, 0, top, look))

    return element(
        "div",
        {"class": "pair"},
        element("h3", {}, words) if words else None,
        bar("predicted", predicted, "of-learner"),
        bar("measured", measured, "of-replay"),
    )


def findings(plan: PlanDocument, remedies: Sequence[RemedyPart]) -> Element:
    """What the rules found and what would help, each ranked by what it saves."""
    ranked = sorted(plan.findings, key=lambda finding: -(finding.saves_bytes or 0))
    none = "Nothing makes the peak smaller and leaves the run its size; `rlmem fit` also looks for a smaller run."
    return parts.section(
        "Findings and remedies",
        element("h3", {}, "Remedies, by what each saves alone"),
        remedy_list(remedies) if remedies else element("p", {}, parts.said(none)),
        element("h3", {}, "Findings"),
        element("ul", {"class": "items"}, (_finding(each, plan) for each in ranked))
        if ranked
        else element("p", {}, "No rule found waste or risk."),
        name="findings",
    )


def _finding(finding: FindingPart, plan: PlanDocument) -> Element:
    """One finding; what it saves is that of the change it unfolds to, and of what follows from that by itself."""
    drawn = parts.item(finding_item(finding))
    if finding.changes:
        old = flatten(plan.target.spec)
        change = parts.code(fields_diff(old, finding.changes), kind="diff", label=f"change of {finding.code}")
        drawn.append(parts.unfold("The change", change))
    return drawn


def remedy_list(remedies: Sequence[RemedyPart]) -> Element:
    """Remedies as a list that unfolds to the change."""
    return element("div", {"class": "remedies"}, (remedy(row) for row in remedies))


def remedy(row: RemedyPart) -> Element:
    """One remedy: what it saves, whether learning changes, the exact change."""
    tone, learning = _KINDS[row.kind]
    saved = ", ".join(f"{format_size(size)} {device.upper()}" for device, size in row.saves_bytes.items() if size)
    summary = [
        element("span", {"class": f"kind {tone}"}, row.kind),
        element("span", {"class": "name"}, row.title),
        element("span", {"class": "size"}, f"saves {saved}"),
    ]
    slow = UNKNOWN if row.slowdown is None else f"×{row.slowdown:g}"
    details = [
        ("learning", learning),
        ("costs", row.costs),
        ("time", f"{slow} ({row.slowdown_basis})"),
        ("then", "; ".join(row.after)),
        ("how", row.how),
    ]
    return parts.unfold(
        summary,
        parts.facts(details),
        parts.code(row.diff, kind="diff", label=f"change of {row.name}") if row.diff else None,
        look="remedy",
    )


def environment(made: EnvironmentPart, command: Sequence[str], plan: PlanDocument) -> Element:
    """Where and with what it was made, and how to make it again."""
    framework = plan.target.spec.get("framework") or {}
    limits = "; ".join(text for text in (plan.machine.ram_source, plan.machine.vram_source) if text)
    rows = [
        ("made again by", element("code", {}, shlex.join(command)) if command else None),
        ("method", plan.method),
        ("framework", " ".join(str(framework[key]) for key in ("name", "version") if framework.get(key))),
        ("versions", ", ".join(f"{name} {version}" for name, version in made.versions.items())),
        ("machine", machine_words(made.machine)),
        (
            "limit",
            limits
            if plan.machine.name.startswith("--") or plan.machine.name in limits
            else f"{plan.machine.name}: {limits}",
        ),
    ]
    notes = [element("p", {"class": "note"}, parts.said(note)) for note in plan.notes]
    return parts.section("Environment", parts.facts(rows), notes, name="environment")


def machine_words(machine: Mapping[str, Any]) -> str:
    """System, cores, memory, GPUs."""
    cores = f"{machine['cores']} cores" if machine.get("cores") else ""
    ram = f"{format_size(machine['ram_bytes'])} RAM" if machine.get("ram_bytes") else ""
    return ", ".join(text for text in (machine.get("system"), cores, ram, *machine.get("gpus", ())) if text)
