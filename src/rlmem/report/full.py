"""Everything a report shows of a planned run, as one document: the JSON that an HTML report carries inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rlmem.app.runs import stored_sweep
from rlmem.app.steps import step_part
from rlmem.app.subjects import write
from rlmem.core.subject import Subject
from rlmem.core.target import Target
from rlmem.documents.contract import plain_part, to_plain
from rlmem.errors import AnalysisError, RlmemError, UsageError
from rlmem.fields import find_field, plain_value
from rlmem.plan import Budget, sentence
from rlmem.planner import ClosedForm
from rlmem.remedies.base import Alone, Step
from rlmem.remedies.search import Search
from rlmem.report.contract import described as described_object
from rlmem.report.contract import problems
from rlmem.report.document import plan_document, read_plan_document
from rlmem.report.outlook import capacity, growth
from rlmem.report.plan import plan_view
from rlmem.report.view import View
from rlmem.rules.knobs import main_knob
from rlmem.runner.facts import machine_facts, own_versions
from rlmem.runner.store import open_store, utc_now
from rlmem.sources import read_description
from rlmem.sources.config import flatten
from rlmem.spec import RunSpec

REPORT_SCHEMA = "rlmem.report/1"


def report_document(
    subject: Subject, *, target: Target, command: Sequence[str], plan: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The plan, and beside it growth, measurements, capacity, remedies, the environment and how to make it again.

    ``plan`` is the plan's document, where it has more in it: a placement.
    """
    plan = plan or plan_document(subject.plan)
    measured = newest_measurement(target.text)
    return {
        "schema": REPORT_SCHEMA,
        "written": utc_now(),
        "command": list(command),
        "plan": plan,
        "growth": growth(plan),
        "measured": measured,
        "differs": other_settings(measured, target, subject.asked) if measured else [],
        "capacity": capacity_of(subject),
        "remedies": remedies(subject),
        "environment": {"machine": machine_facts(), "versions": {**subject.versions, **own_versions()}},
    }


def recorded_report(document: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded run, with what its plan says of its main knob and of remedies; the rest of it is as it was recorded."""
    plan = document.get("plan")
    if not plan:
        return {**document, "capacity": None, "remedies": []}
    limit = Budget(
        name="the run's limit", ram_bytes=plan["machine"]["ram_bytes"], ram_source=plan["machine"]["ram_source"] or ""
    )
    spec = RunSpec().having(flatten(plan["target"]["spec"]), "the recorded run")
    subject = ClosedForm().subject(spec, limit)
    return {**document, "capacity": capacity_of(subject), "remedies": remedies(subject)}


def newest_measurement(target: str) -> dict[str, Any] | None:
    """The last sweep of ``rlmem measure`` over a target; None when there is none, or no store that can be read."""
    try:
        with open_store() as store:
            run = next((run for run in store.runs(kind="measure") if run.target == target), None)
            return to_plain(stored_sweep(store, run)) if run else None
    except AnalysisError:
        return None


def other_settings(measured: Mapping[str, Any], target: Target, asked: RunSpec) -> list[str]:
    """Settings in which what was measured is another run than the one asked for, beside those that were varied."""
    if target.is_executable:
        return []
    try:
        theirs = flatten(read_description(replace(target, sets=tuple(measured["options"].get("sets") or ()))).to_dict())
    except RlmemError:  # the run file has gone
        return []
    ours = flatten(asked.to_dict())
    varied = {axis["name"] for axis in measured["axes"]}
    return [
        f"{path} {theirs.get(path, 'unset')} (here {ours.get(path, 'unset')})"
        for path in dict.fromkeys((*theirs, *ours))
        if path not in varied and theirs.get(path) != ours.get(path)
    ]


def capacity_of(subject: Subject) -> dict[str, Any] | None:
    """How far the main knob can be turned; None where the run cannot be planned changed."""
    if not subject.is_changeable:
        return None
    try:
        return capacity(subject, main_knob(subject.spec))
    except RlmemError:  # a loop whose knob the description does not hold
        return None


def remedies(subject: Subject) -> list[dict[str, Any]]:
    """Every remedy by itself, the one that saves most at the peak first, each with the change to make."""
    if not subject.is_changeable:
        return []
    device = subject.plan.deciding.device
    rows = [remedy_document(item, subject) for item in Search(subject).alone()]
    helping = [row for row in rows if any(size > 0 for size in row["saves_bytes"].values())]
    return sorted(helping, key=lambda row: (-row["saves_bytes"].get(device, 0), -max(row["saves_bytes"].values())))


def remedy_document(item: Alone, subject: Subject) -> dict[str, Any]:
    """One remedy: what it saves, what it costs, whether it is enough, and the change as text."""
    written = write(subject, item.state)
    is_diff = written.kind == "diff"
    return {
        **plain_part(step_part(item.step)),
        "fits": item.fits,
        "after": [f"{top.device.upper()} {sentence(top)}" for top in item.state.plan.tops],
        "diff": written.text if is_diff else step_diff(item.step, subject.asked),
        "text": None if is_diff or written.kind == "nothing" else written.text,
        "by_hand": list(written.by_hand),
    }


def step_diff(step: Step, asked: RunSpec) -> str:
    """The fields that a step changes; one that only has to be said, lest it follow another, has no old line."""
    new = step.change.values
    old = {path: asked.get(path) if value is None else value for path, value in step.old.items()}
    return fields_diff({path: value for path, value in old.items() if path in asked or value != new[path]}, new)


def fields_diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Changed fields of a description, the old line above the new one."""
    lines = []
    for path, value in new.items():
        before = old.get(path)
        if before == value:
            continue
        lines += [] if before is None else [f"- {path}: {_plain(path, before)}"]
        lines += [f"+ {path}: {_plain(path, value)}"]
    return "\n".join(lines)


def _plain(path: str, value: Any) -> Any:
    row = find_field(path)
    return value if row.kind == "space" and isinstance(value, Mapping) else plain_value(row, value)


def read_report_document(data: Any, where: str) -> dict[str, Any]:
    """A document that was saved from a report, checked."""
    problem = next(problems(data, REPORT_JSON_SCHEMA, ""), None)
    if problem:
        raise UsageError(f"{where}: not a complete report document: {problem}")
    return {**data, "plan": read_plan_document(data["plan"], where)}


def report_view(document: Mapping[str, Any]) -> View:
    """A report in a terminal is its plan."""
    return plan_view(document["plan"])


_OBJECT, _MAYBE_OBJECT = {"type": "object"}, {"type": ["object", "null"]}
REPORT_JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": REPORT_SCHEMA,
    "title": "What an HTML report of a planned run carries inside",
    **described_object(
        {
            "schema": {"type": "string", "enum": [REPORT_SCHEMA]},
            "written": {"type": "string"},
            "command": {"type": "array", "items": {"type": "string"}},
            "plan": {**_OBJECT, "description": "rlmem.plan/1"},
            "growth": {
                **_MAYBE_OBJECT,
                "description": "resident bytes over environment steps; null when nothing fills",
            },
            "measured": {**_MAYBE_OBJECT, "description": "rlmem.sweep/1, the newest of the target; null without one"},
            "differs": {
                "type": "array",
                "items": {"type": "string"},
                "description": "settings in which the measurement was of another run",
            },
            "capacity": {**_MAYBE_OBJECT, "description": "peaks over the main knob; null where it cannot be turned"},
            "remedies": {"type": "array", "items": _OBJECT, "description": "each by itself, the largest saving first"},
            "environment": _OBJECT,
        },
        optional=("differs",),
    ),
}
