"""The assessment: the document people write by hand about a run's memory, from the run's description.

Settings with their origins, the cost of one unit, the peak by component and phase, capacity, the arithmetic of the
training loop, findings in order of what they save, and the settings that do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.core.subject import Subject
from rlmem.fields import BY_PATH
from rlmem.plan import Plan
from rlmem.report.document import plan_document
from rlmem.report.outlook import capacity, capacity_table, capacity_words
from rlmem.report.plan import breakdown, finding_items, process_table, verdict_lines
from rlmem.report.view import Column, Item, Section, Table, View, setting_text
from rlmem.rules.knobs import main_knob
from rlmem.units import format_count, format_size

ASSESSMENT_SCHEMA = "rlmem.assessment/1"
NO_EFFECT = "MEM901"
#: A plan's settings that explain themselves elsewhere in the document.
_LONG = ("about",)
#: Settings that stand beneath a common name.
_GROUPS = frozenset(path.partition(".")[0] for path in BY_PATH if "." in path)


def assessment_document(subject: Subject) -> dict[str, Any]:
    """The plan's document with unit costs and a capacity table beside it, of a run that can be planned changed."""
    plan = subject.plan
    return {
        "schema": ASSESSMENT_SCHEMA,
        "plan": plan_document(plan),
        "units": _units(plan),
        "capacity": capacity(subject, main_knob(plan.spec)),
    }


def _units(plan: Plan) -> list[dict[str, Any]]:
    """What one transition, one rollout step, one sample of a batch, one agent or one environment costs."""
    spec, rows = plan.spec, []

    def add(unit: str, group: str, phase: str, count: int, what: str) -> None:
        entries = [e for e in plan.ledger.only(phase=phase).entries if e.component.startswith(group) and e.counts]
        nbytes = sum(e.nbytes for e in entries)
        if nbytes and count:
            rows.append({"unit": unit, "count": count, "bytes_each": nbytes // count, "nbytes": nbytes, "what": what})

    if "buffer_size" in spec:
        slots = max(spec.count("buffer_size") // spec.count("n_envs"), 1) * spec.count("n_envs")
        add("transition", "replay.", "collect", slots, "replay buffer: observations, next observations, action, flags")
    elif "n_steps" in spec:
        samples = spec.count("n_steps") * spec.count("n_envs") * spec.count("agents")
        add(
            "rollout step",
            "rollout.",
            "collect",
            samples,
            "rollout: observations, actions, values and what is kept with them",
        )
    batch = spec.count("batch_size")
    add("sample of a batch", "batch.", "update", batch, "gathered, converted and normalised observations")
    add("sample of a batch", "learner.activations", "update", batch, "activations kept for backward at the peak")
    add("sample of a batch", "learner.backward", "update", batch, "gradients of activations at the peak")
    if spec.count("agents") > 1:
        add("agent", "workers.env-state", "build", spec.count("agents"), "environment state")
    add("environment", "workers.", "build", spec.count("n_envs"), "environment, its process and the wrappers' copies")
    return rows


def assessment_view(document: Mapping[str, Any]) -> View:
    """The document as a page."""
    plan = document["plan"]
    devices = tuple(dict.fromkeys(peak["device"] for peak in plan["peaks"]))
    processes = process_table(plan)
    sections = [
        _run_section(plan),
        _units_section(document),
        Section(
            title="Peak by component and phase",
            lines=("The peak belongs to one phase; the total of a phase is what is live at its largest moment.",),
            tables=(*(breakdown(plan, device) for device in devices), *([processes] if processes else [])),
        ),
        _capacity_section(document["capacity"], plan),
    ]
    if plan.get("schedule"):
        sections.append(_logic_section(plan))
    findings = [f for f in plan["findings"] if f["code"] != NO_EFFECT]
    sections.append(
        Section(
            title="Recommendations",
            lines=() if findings else ("Nothing to recommend: no rule found waste or risk.",),
            items=finding_items({"findings": findings}),
        )
    )
    idle = [f for f in plan["findings"] if f["code"] == NO_EFFECT]
    if idle:
        sections.append(
            Section(
                title="Settings without memory effect",
                items=tuple(Item(lead=f["location"] or f["code"], text=f["title"]) for f in idle),
            )
        )
    sections.append(_check_section(plan))
    title = f"Memory assessment: {plan['target']['name']}"
    return View(
        title=title,
        verdict=verdict_lines(plan),
        sections=tuple(sections),
        notes=("GiB is 2³⁰ bytes, GB is 10⁹.", f"Written by rlmem {plan['rlmem']}."),
    )


def _run_section(plan: Mapping[str, Any]) -> Section:
    target, machine = plan["target"], plan["machine"]
    flat = _flat(target["spec"])
    rows = tuple(
        (path, setting_text(value), target["origins"].get(path, ""))
        for path, value in flat.items()
        if path not in _LONG and path != "name"
    )
    columns = (Column(title="setting", right=False), Column(title="value"), Column(title="from", right=False))
    sources = [text for text in (machine["ram_source"], machine["vram_source"]) if text]
    lines = tuple(text for text in (target["about"], f"Limit: {'; '.join(sources)}" if sources else None) if text)
    return Section(title="The run", lines=lines, tables=(Table(title="", columns=columns, rows=rows),))


def _flat(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in data.items():
        path = f"{prefix}{key}"
        nested = isinstance(value, Mapping) and path in _GROUPS
        out |= _flat(value, f"{path}.") if nested else {path: value}
    return out


def _units_section(document: Mapping[str, Any]) -> Section:
    rows = tuple(
        (row["unit"], row["what"], f"{row['bytes_each']:,} B", format_count(row["count"]), format_size(row["nbytes"]))
        for row in document["units"]
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


def _capacity_section(found: Mapping[str, Any], plan: Mapping[str, Any]) -> Section:
    machine = plan["machine"]["name"]
    return Section(title="Capacity", lines=(capacity_words(found, machine),), tables=(capacity_table(found, machine),))


def _logic_section(plan: Mapping[str, Any]) -> Section:
    """Updates, iterations and checkpoints: the checks people make by hand."""
    found = plan["schedule"]
    items = [
        Item(lead="samples", text=f"{found['samples_per_iteration']:,} per iteration (n_steps × n_envs × agents)"),
        Item(lead="updates", text=_updates(found)),
    ]
    if found["last_minibatch"] != found["batch_size"]:
        items.append(
            Item(
                lead="remainder",
                text=f"the last minibatch of an epoch has {found['last_minibatch']:,} samples",
                tone="warn",
            )
        )
    if found["iterations"] is not None:
        items.append(Item(lead="iterations", text=f"{found['iterations']:,} until total_timesteps is reached"))
    if found["checkpoint_timesteps"] is not None:
        items.append(
            Item(
                lead="checkpoints",
                text=f"every {found['checkpoint_timesteps']:,} timesteps = {found['checkpoint_iterations']:g} "
                "iterations (save_freq counts callback calls, one per step of all environments)",
            )
        )
    return Section(title="Logic checks", items=tuple(items))


def _updates(found: Mapping[str, Any]) -> str:
    samples, batch, epochs = found["samples_per_iteration"], found["batch_size"], found["epochs"]
    steps = f"{found['updates_per_iteration']:,} gradient steps per iteration"
    if found["with_replacement"]:
        return f"{samples:,} samples × {epochs} / batches of {batch:,}, drawn with replacement = {steps}"
    count = found["minibatches_per_epoch"]
    return f"{count:,} minibatch{'es' if count > 1 else ''} of {batch:,} × {epochs} epoch{'s' if epochs > 1 else ''} = {steps}"


def _check_section(plan: Mapping[str, Any]) -> Section:
    name = plan["target"]["name"]
    lines = (
        f"`rlmem plan {name} --why COMPONENT` shows the formula behind any number above and where its values come from.",
        "`rlmem calibrate` measures the runtime constants of the environment the run will use.",
        "A replay buffer is reserved when the model is built and becomes resident as it fills: a run that does not fit dies late.",
    )
    return Section(title="How to check this", lines=lines)
