"""The assessment: the document people write by hand about a run's memory, from the run's description.

Settings with their origins, the cost of one unit, the peak by component and phase, capacity, the arithmetic of the
training loop, findings in order of what they save, and the settings that do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.core.fields import BY_PATH
from rlmem.documents.capacity import CapacityCurvePart
from rlmem.documents.plan import PlanDocument, SchedulePart
from rlmem.documents.report import AssessmentDocument
from rlmem.report.capacity import curve_table, curve_words
from rlmem.report.plan import breakdown, finding_items, process_table, verdict_lines
from rlmem.report.view import Column, Item, Section, Table, View, setting_text
from rlmem.units import format_count, format_size

NO_EFFECT = "MEM901"
#: A plan's settings that explain themselves elsewhere in the document.
_LONG = ("about",)
#: Settings that stand beneath a common name.
_GROUPS = frozenset(path.partition(".")[0] for path in BY_PATH if "." in path)


def assessment_view(document: AssessmentDocument) -> View:
    """The document as a page."""
    plan = document.plan
    processes = process_table(plan)
    sections = [
        _run_section(plan),
        _units_section(document),
        Section(
            title="Peak by component and phase",
            lines=("The peak belongs to one phase; the total of a phase is what is live at its largest moment.",),
            tables=(*(breakdown(plan, device) for device in plan.devices), *([processes] if processes else [])),
        ),
    ]
    if document.capacity:
        sections.append(_capacity_section(document.capacity, plan))
    if plan.schedule:
        sections.append(_logic_section(plan.schedule))
    findings = [finding for finding in plan.findings if finding.code != NO_EFFECT]
    sections.append(
        Section(
            title="Recommendations",
            lines=() if findings else ("Nothing to recommend: no rule found waste or risk.",),
            items=finding_items(findings),
        )
    )
    idle = [finding for finding in plan.findings if finding.code == NO_EFFECT]
    if idle:
        sections.append(
            Section(
                title="Settings without memory effect",
                items=tuple(Item(lead=finding.location or finding.code, text=finding.title) for finding in idle),
            )
        )
    sections.append(_check_section(plan))
    title = f"Memory assessment: {plan.target.name}"
    return View(
        title=title,
        verdict=verdict_lines(plan),
        sections=tuple(sections),
        notes=("GiB is 2³⁰ bytes, GB is 10⁹.", f"Written by rlmem {plan.rlmem}."),
    )


def _run_section(plan: PlanDocument) -> Section:
    target, machine = plan.target, plan.machine
    flat = _flat(target.spec)
    rows = tuple(
        (path, setting_text(value), target.origins.get(path, ""))
        for path, value in flat.items()
        if path not in _LONG and path != "name"
    )
    columns = (Column(title="setting", right=False), Column(title="value"), Column(title="from", right=False))
    sources = [text for text in (machine.ram_source, machine.vram_source) if text]
    lines = tuple(text for text in (target.about, f"Limit: {'; '.join(sources)}" if sources else None) if text)
    return Section(title="The run", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        nested = isinstance(value, Mapping) and path in _GROUPS
        out |= _flat(value, f"{path}.") if nested else {path: value}
    return out


def _units_section(document: AssessmentDocument) -> Section:
    rows = tuple(
        (row.unit, row.what, f"{row.bytes_each:,} B", format_count(row.count), format_size(row.nbytes))
        for row in document.units
    )
    columns = (
        Column(title="one …", right=False),
        Column(title="holds", right=False),
        Column(title="bytes each", rank=1),
        Column(title="how many"),
        Column(title="together"),
    )
    return Section(
        title="What one of each costs",
        lines=("Per transition, per sample and per environment are kept apart.",),
        tables=(Table(title="", columns=columns, rows=rows),),
    )


def _capacity_section(curve: CapacityCurvePart, plan: PlanDocument) -> Section:
    machine = plan.machine.name
    return Section(title="Capacity", lines=(curve_words(curve, machine),), tables=(curve_table(curve, machine),))


def _logic_section(loop: SchedulePart) -> Section:
    """Updates, iterations and checkpoints: the checks people make by hand."""
    items = [
        Item(lead="samples", text=f"{loop.samples_per_iteration:,} per iteration (n_steps × n_envs × agents)"),
        Item(lead="updates", text=_updates(loop)),
    ]
    if loop.last_minibatch != loop.batch_size:
        items.append(
            Item(
                lead="remainder",
                text=f"the last minibatch of an epoch has {loop.last_minibatch:,} samples",
                tone="warn",
            )
        )
    if loop.iterations is not None:
        items.append(Item(lead="iterations", text=f"{loop.iterations:,} until total_timesteps is reached"))
    if loop.checkpoint_timesteps is not None:
        items.append(
            Item(
                lead="checkpoints",
                text=f"every {loop.checkpoint_timesteps:,} timesteps = {loop.checkpoint_iterations:g} "
                "iterations (save_freq counts callback calls, one per step of all environments)",
            )
        )
    return Section(title="Logic checks", items=tuple(items))


def _updates(loop: SchedulePart) -> str:
    samples, batch, epochs = loop.samples_per_iteration, loop.batch_size, loop.epochs
    steps = f"{loop.updates_per_iteration:,} gradient steps per iteration"
    if loop.with_replacement:
        return f"{samples:,} samples × {epochs} / batches of {batch:,}, drawn with replacement = {steps}"
    count = loop.minibatches_per_epoch
    return f"{count:,} minibatch{'es' if count > 1 else ''} of {batch:,} × {epochs} epoch{'s' if epochs > 1 else ''} = {steps}"


def _check_section(plan: PlanDocument) -> Section:
    name = plan.target.name
    lines = (
        f"`rlmem plan {name} --why COMPONENT` shows the formula behind any number above and where its values come from.",
        "`rlmem calibrate` measures the runtime constants of the environment the run will use.",
        "A replay buffer is reserved when the model is built and becomes resident as it fills: a run that does not fit dies late.",
    )
    return Section(title="How to check this", lines=lines)
