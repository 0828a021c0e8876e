"""The JSON contract: a plan as plain data, its JSON Schema, and a reader for every version there has been."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rlmem.errors import UsageError
from rlmem.findings import SEVERITIES
from rlmem.ledger import BASES, DEVICES, PHASES, RESIDENCIES, Entry
from rlmem.plan import VERDICTS, Plan
from rlmem.report.contract import described, problems
from rlmem.schedule import schedule
from rlmem.version import __version__

PLAN_SCHEMA = "rlmem.plan/1"


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as the public contract has it; sizes are integers in bytes."""
    budget = plan.budget
    reasons: dict[int, dict[str, Any]] = {}
    return {
        "schema": PLAN_SCHEMA,
        "rlmem": __version__,
        "target": {
            "name": plan.spec.name,
            "about": plan.spec.get("about"),
            "spec": plan.spec.to_dict(),
            "origins": dict(plan.spec.origins),
        },
        "machine": {
            "name": budget.name,
            "ram_bytes": budget.ram_bytes,
            "vram_bytes": budget.vram_bytes,
            "unified": budget.unified,
            "cores": budget.cores,
            "ram_source": budget.ram_source or None,
            "vram_source": budget.vram_source or None,
        },
        "verdict": plan.verdict,
        "growth": _growth(plan),
        "unknown": [
            {"device": device, "limit_bytes": budget.limits[device], "why": why} for device, why in plan.unknown.items()
        ],
        "summary": list(plan.sentences),
        "warnings": list(plan.warnings),
        "peaks": [
            {
                "device": peak.device,
                "phase": peak.phase,
                "low_bytes": peak.low_bytes,
                "expected_bytes": peak.expected_bytes,
                "high_bytes": peak.high_bytes,
                "limit_bytes": peak.limit_bytes,
                "is_peak": peak.is_peak,
            }
            for peak in plan.peaks
        ],
        "entries": [
            {
                "component": entry.component,
                "device": entry.device,
                "process": entry.process,
                "phase": entry.phase,
                "nbytes": entry.nbytes,
                "low_bytes": entry.amount.low,
                "high_bytes": entry.amount.high,
                "basis": entry.basis,
                "residency": entry.residency,
                **_reasons(entry, reasons),
            }
            for entry in plan.ledger.entries
        ],
        "findings": [
            {
                "code": finding.code,
                "name": finding.name,
                "severity": finding.severity,
                "title": finding.title,
                "saves_bytes": finding.saves_bytes,
                "location": finding.location,
                "line": finding.place.line if finding.place else None,
                "costs_bytes": finding.costs_bytes,
                "costs_per": finding.costs_per,
                "remedy": finding.remedy,
                "changes": dict(finding.changes),
            }
            for finding in plan.findings
        ],
        "schedule": _schedule(plan),
        "method": plan.method,
        "notes": list(plan.notes),
    }


def _growth(plan: Plan) -> dict[str, Any] | None:
    """The leak that a dry run saw."""
    peak = plan.top("ram")
    return None if peak is None or peak.leak is None else asdict(peak.leak)


def _reasons(entry: Entry, known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Formula and origins of an amount: it is in most phases as it was in the one before, and is written out once."""
    number = id(entry.amount)
    if number not in known:
        origin = [{"name": term.name, "value": term.value, "origin": term.origin} for term in entry.origin]
        known[number] = {"formula": entry.formula, "origin": origin}
    return known[number]


def _schedule(plan: Plan) -> dict[str, Any] | None:
    found = schedule(plan.spec)
    if found is None:
        return None
    return {
        "samples_per_iteration": found.samples,
        "batch_size": found.batch,
        "minibatches_per_epoch": found.minibatches,
        "last_minibatch": found.remainder or found.batch,
        "epochs": found.epochs,
        "with_replacement": found.with_replacement,
        "updates_per_iteration": found.updates,
        "iterations": found.iterations,
        "checkpoint_timesteps": found.save_timesteps,
        "checkpoint_iterations": found.save_iterations,
    }


def read_plan_document(data: Any, where: str) -> dict[str, Any]:
    """A saved document of any version, as the newest one has it."""
    if not isinstance(data, Mapping) or not isinstance(data.get("schema"), str):
        raise UsageError(f"{where}: not a document written by rlmem (no 'schema' field)")
    if data["schema"] != PLAN_SCHEMA:
        raise UsageError(f"{where}: schema {data['schema']!r} is not one this version reads; it reads {PLAN_SCHEMA}")
    problem = next(problems(data, PLAN_JSON_SCHEMA, ""), None)
    if problem is None and {p["device"] for p in data["peaks"]} != {p["device"] for p in data["peaks"] if p["is_peak"]}:
        problem = "peaks: no row is marked as the peak"
    if problem:
        raise UsageError(f"{where}: not a complete plan document: {problem}")
    empty: dict[str, Any] = {
        "summary": [],
        "warnings": [],
        "growth": None,
        "unknown": [],
        "schedule": None,
        "notes": [],
    }
    return {**empty, "method": "closed form", **data}


_BYTES = {"type": "integer", "minimum": 0}
_MAYBE_BYTES = {"type": ["integer", "null"], "minimum": 0}
_TEXT = {"type": "string"}
_MAYBE_TEXT = {"type": ["string", "null"]}
_ORIGIN = described({"name": _TEXT, "value": {"type": "integer"}, "origin": _TEXT})
PLAN_JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": PLAN_SCHEMA,
    "title": "rlmem plan",
    "description": "What a run needs, by component, device, process and phase. Sizes are integers in bytes.",
    **described(
        {
            "schema": {"const": PLAN_SCHEMA},
            "rlmem": {**_TEXT, "description": "version that wrote the document"},
            "target": described(
                {"name": _TEXT, "about": _MAYBE_TEXT, "spec": {"type": "object"}, "origins": {"type": "object"}}
            ),
            "machine": described(
                {
                    "name": _TEXT,
                    "ram_bytes": _MAYBE_BYTES,
                    "vram_bytes": _MAYBE_BYTES,
                    "unified": {"type": "boolean"},
                    "cores": {"type": ["integer", "null"]},
                    "ram_source": _MAYBE_TEXT,
                    "vram_source": _MAYBE_TEXT,
                }
            ),
            "verdict": {"enum": list(VERDICTS)},
            "growth": {
                "type": ["object", "null"],
                "description": "a leak that a dry run saw: bytes each update (or step) adds and nothing frees, with a range, how "
                "many were seen and what they added, who holds it, how many are left until the loop ends (null: not known)",
                "properties": {
                    "bytes_each": _BYTES,
                    "low_bytes": _BYTES,
                    "high_bytes": _BYTES,
                    "per": {"enum": ["update", "step", "optimizer step"]},
                    "rounds": _BYTES,
                    "rise_bytes": _BYTES,
                    "owner": _MAYBE_TEXT,
                    "left": {"type": ["number", "null"]},
                    "kind": _TEXT,
                    "keeps_graphs": {"type": "boolean"},
                },
            },
            "unknown": {
                "type": "array",
                "description": "devices with a limit for which no figure can be said; the exit code is 4",
                "items": described({"device": {"enum": list(DEVICES)}, "limit_bytes": _MAYBE_BYTES, "why": _TEXT}),
            },
            "summary": {"type": "array", "items": _TEXT},
            "warnings": {
                "type": "array",
                "items": _TEXT,
                "description": "what the verdict does not say: memory that is not free now",
            },
            "peaks": {
                "type": "array",
                "description": "one row per device and phase, each device's largest phase first; low_bytes is the largest lower "
                "bound over the moments of the phase, so it can exceed the sum of its entries' own",
                "items": described(
                    {
                        "device": {"enum": list(DEVICES)},
                        "phase": {"enum": list(PHASES)},
                        "low_bytes": _BYTES,
                        "expected_bytes": _BYTES,
                        "high_bytes": _BYTES,
                        "limit_bytes": _MAYBE_BYTES,
                        "is_peak": {"type": "boolean"},
                    }
                ),
            },
            "entries": {
                "type": "array",
                "description": "what is live at each phase's largest moment; 'reserved' entries take no memory yet",
                "items": described(
                    {
                        "component": _TEXT,
                        "device": {"enum": list(DEVICES)},
                        "process": _TEXT,
                        "phase": {"enum": list(PHASES)},
                        "nbytes": _BYTES,
                        "low_bytes": _BYTES,
                        "high_bytes": _BYTES,
                        "basis": {"enum": list(BASES)},
                        "residency": {"enum": list(RESIDENCIES)},
                        "formula": _TEXT,
                        "origin": {"type": "array", "items": _ORIGIN},
                    }
                ),
            },
            "findings": {
                "type": "array",
                "items": described(
                    {
                        "code": _TEXT,
                        "name": _TEXT,
                        "severity": {"enum": list(SEVERITIES)},
                        "title": _TEXT,
                        "saves_bytes": {"type": ["integer", "null"]},
                        "location": _MAYBE_TEXT,
                        "remedy": _MAYBE_TEXT,
                        "changes": {"type": "object"},
                        "line": {"type": ["integer", "null"], "description": "of the script that was planned"},
                        "costs_bytes": _MAYBE_BYTES,
                        "costs_per": _TEXT,
                    },
                    optional=("line", "costs_bytes", "costs_per"),
                ),
            },
            "method": {
                **_TEXT,
                "description": "'closed form': arithmetic over a description; 'dry run': read from the real thing",
            },
            "notes": {"type": "array", "items": _TEXT, "description": "how the figures came about"},
            "schedule": {
                "type": ["object", "null"],
                "description": "the training loop of an on-policy run; null for others",
                "properties": {
                    name: {"type": ["number", "boolean", "null"]}
                    for name in (
                        "samples_per_iteration",
                        "batch_size",
                        "minibatches_per_epoch",
                        "last_minibatch",
                        "epochs",
                        "with_replacement",
                        "updates_per_iteration",
                        "iterations",
                        "checkpoint_timesteps",
                        "checkpoint_iterations",
                    )
                },
            },
            "placement": {"type": "object", "description": "with --nodes: where it fits; see 'rlmem schema placement'"},
        },
        optional=("schedule", "growth", "unknown", "summary", "warnings", "rlmem", "method", "notes", "placement"),
    ),
}
