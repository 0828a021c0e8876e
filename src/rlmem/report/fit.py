"""What ``rlmem fit`` found, as a document: the JSON contract ``rlmem.fit/1``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlmem.fields import find_field, plain_value
from rlmem.machines import Machine
from rlmem.plan import VERDICTS, Plan
from rlmem.points import Point
from rlmem.remedies.base import KINDS, Alone, Fit, Step
from rlmem.remedies.machine import would_do
from rlmem.report.contract import described
from rlmem.trace.fitted import Fitted
from rlmem.trace.verifying import Verified
from rlmem.version import __version__

FIT_SCHEMA = "rlmem.fit/1"
STATUSES = ("already", "fits", "expected", "no", "unknown", "grows")


def fit_document(
    fitted: Fitted, verified: Verified | None = None, applied: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The answer as plain data; sizes are integers in bytes."""
    fit = fitted.fit
    start, end = fit.start.plan, fit.end.plan
    budget = start.budget
    return {
        "schema": FIT_SCHEMA,
        "rlmem": __version__,
        "target": {"name": start.spec.name, "about": start.spec.get("about"), "method": start.method},
        "machine": {
            "name": budget.name,
            "ram_bytes": budget.ram_bytes,
            "vram_bytes": budget.vram_bytes,
            "ram_source": budget.ram_source or None,
            "vram_source": budget.vram_source or None,
        },
        "status": fit.status,
        "before": judged(start),
        "after": judged(end),
        "steps": [step_document(step) for step in fit.end.steps],
        "changes": _plain(fit.end.changes),
        "slowdown": _rounded(fit.end.slowdown),
        "left_over": fit.left_over if fit.status in ("expected", "no") else {},
        "machines": _machines(fit),
        "alone": [_alone(item) for item in fit.alone],
        "write": {
            "kind": fitted.written.kind,
            "text": fitted.written.text or None,
            "by_hand": list(fitted.written.by_hand),
        },
        "applied": dict(applied) if applied else None,
        "verified": _verified(verified, fit) if verified else None,
        "notes": list(start.notes),
    }


def judged(plan: Plan) -> dict[str, Any]:
    """A plan in short: its verdict, and the peak of each device."""
    return {
        "verdict": plan.verdict,
        "summary": [*plan.sentences, *plan.warnings],
        "peaks": [
            {
                "device": top.device,
                "phase": top.phase,
                "low_bytes": top.low_bytes,
                "expected_bytes": top.expected_bytes,
                "high_bytes": top.high_bytes,
                "limit_bytes": top.limit_bytes,
            }
            for top in plan.tops
        ],
    }


def step_document(step: Step) -> dict[str, Any]:
    """A remedy applied, as plain data."""
    return {
        "name": step.remedy.name,
        "kind": step.remedy.kind,
        "title": step.remedy.title,
        "changes": _plain(step.change.values),
        "old": _plain(step.old),
        "saves_bytes": step.saves,
        "slowdown": step.remedy.slowdown,
        "slowdown_basis": step.remedy.basis,
        "costs": step.remedy.costs,
        "how": step.change.how,
    }


def _alone(item: Alone) -> dict[str, Any]:
    return {**step_document(item.step), "fits": item.fits}


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    out = {}
    for path, value in values.items():
        row = find_field(path)
        parsed = value is not None and not (row.kind == "space" and isinstance(value, Mapping))
        out[path] = plain_value(row, value) if parsed else value
    return out


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _machines(fit: Fit) -> dict[str, Any]:
    """The smallest machines of the catalogue: for the run as it is, and with every step that leaves learning alone."""
    if fit.status in ("already", "unknown", "grows"):
        return {}
    found = {"as_it_is": _machine(would_do(fit.start.plan))}
    if fit.mild is not None and fit.mild.steps:
        found["without_changing_learning"] = _machine(would_do(fit.mild.plan))
    return found


def _machine(machine: Machine | None) -> dict[str, Any] | None:
    if machine is None:
        return None
    return {
        "name": machine.name,
        "about": machine.about,
        "ram_bytes": machine.ram_bytes,
        "vram_bytes": machine.vram_bytes,
    }


def _verified(verified: Verified, fit: Fit) -> dict[str, Any]:
    return {
        "cap_bytes": verified.cap_bytes,
        "before": _point(verified.before),
        "after": _point(verified.after),
        "predicted_saving_bytes": _total_saving(fit),
        "real_saving_bytes": verified.saved_bytes,
        "took_effect": verified.took_effect,
        "notes": list(verified.notes),
    }


def _point(point: Point | None) -> dict[str, Any] | None:
    if point is None:
        return None
    return {"status": point.status, "peak_bytes": point.peak_bytes, "wall_s": point.wall_s, "note": point.note}


def _total_saving(fit: Fit) -> int | None:
    before, after = fit.start.plan.top("ram"), fit.end.plan.top("ram")
    return before.expected_bytes - after.expected_bytes if before and after else None


_BYTES = {"type": "integer"}
_MAYBE_BYTES = {"type": ["integer", "null"]}
_TEXT = {"type": "string"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_MAYBE_NUMBER = {"type": ["number", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}
_SIDE = described(
    {
        "verdict": {"enum": list(VERDICTS)},
        "summary": _TEXTS,
        "peaks": {
            "type": "array",
            "items": described(
                {
                    "device": _TEXT,
                    "phase": _TEXT,
                    "low_bytes": _BYTES,
                    "expected_bytes": _BYTES,
                    "high_bytes": _BYTES,
                    "limit_bytes": _MAYBE_BYTES,
                }
            ),
        },
    }
)
_STEP = {
    "name": _TEXT,
    "kind": {"enum": list(KINDS)},
    "title": _TEXT,
    "changes": {"type": "object"},
    "old": {"type": "object"},
    "saves_bytes": {"type": "object", "additionalProperties": _BYTES},
    "slowdown": _MAYBE_NUMBER,
    "slowdown_basis": _TEXT,
    "costs": _TEXT,
    "how": _TEXT,
}
FIT_JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "What rlmem fit found",
    **described(
        {
            "schema": {"enum": [FIT_SCHEMA]},
            "rlmem": _TEXT,
            "target": described({"name": _TEXT, "about": _MAYBE_TEXT, "method": _TEXT}),
            "machine": {"type": "object"},
            "status": {"enum": list(STATUSES)},
            "before": _SIDE,
            "after": _SIDE,
            "steps": {"type": "array", "items": described(_STEP)},
            "changes": {"type": "object"},
            "slowdown": {**_MAYBE_NUMBER, "description": "all steps together; null when one of them is unknown"},
            "left_over": {"type": "object", "additionalProperties": _BYTES},
            "machines": {"type": "object"},
            "alone": {"type": "array", "items": described({**_STEP, "fits": {"type": "boolean"}})},
            "write": described(
                {"kind": {"enum": ["diff", "yaml", "python", "nothing"]}, "text": _MAYBE_TEXT, "by_hand": _TEXTS}
            ),
            "applied": {"type": ["object", "null"]},
            "verified": {"type": ["object", "null"]},
            "notes": _TEXTS,
        }
    ),
}
