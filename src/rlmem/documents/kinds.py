"""The kinds of document there are, and the reader of a document of any kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rlmem.documents.contract import Document, from_plain, schema_name
from rlmem.errors import UsageError

#: The name in a schema (``plan`` of ``rlmem.plan/1``) to the class, loaded when it is asked for.
KINDS = {
    "assessment": "rlmem.documents.report:AssessmentDocument",
    "bench": "rlmem.documents.bench:BenchDocument",
    "calibration": "rlmem.documents.calibration:CalibrationDocument",
    "capacity": "rlmem.documents.capacity:CapacityDocument",
    "capacity-curve": "rlmem.documents.capacity:CapacityCurveDocument",
    "cluster": "rlmem.documents.cluster:ClusterDocument",
    "compare": "rlmem.documents.comparison:ComparisonDocument",
    "compare-recorded": "rlmem.documents.recorded_comparison:RecordedComparisonDocument",
    "compare-sweeps": "rlmem.documents.sweep_comparison:SweepComparisonDocument",
    "explain": "rlmem.documents.explanation:ExplanationDocument",
    "fields": "rlmem.documents.serve_tables:FieldsDocument",
    "fit": "rlmem.documents.fit:FitDocument",
    "formulas": "rlmem.documents.formulas:FormulasDocument",
    "limits": "rlmem.documents.limits:LimitsDocument",
    "lint": "rlmem.documents.lint:LintDocument",
    "lint-baseline": "rlmem.documents.lint:BaselineDocument",
    "machines": "rlmem.documents.machines:MachinesDocument",
    "max-buffer": "rlmem.documents.max_buffer:MaxBufferDocument",
    "moment": "rlmem.documents.moment:MomentDocument",
    "placement": "rlmem.documents.placement:PlacementDocument",
    "plan": "rlmem.documents.plan:PlanDocument",
    "polled-moment": "rlmem.documents.moment:PolledMomentDocument",
    "presets": "rlmem.documents.presets:PresetsDocument",
    "processes": "rlmem.documents.serve_tables:ProcessesDocument",
    "recorded": "rlmem.documents.recorded:RecordedDocument",
    "report": "rlmem.documents.report:ReportDocument",
    "rules": "rlmem.documents.rules:RulesDocument",
    "runs": "rlmem.documents.runs:RunsDocument",
    "stacks": "rlmem.documents.stacks:StacksDocument",
    "swarm-ladder": "rlmem.documents.ladder:LadderDocument",
    "swarm-train": "rlmem.documents.swarm:TrainDocument",
    "sweep": "rlmem.documents.sweep:SweepDocument",
    "zoo": "rlmem.documents.serve_tables:ZooDocument",
}


def document_class(name: str) -> type[Document]:
    """Return the class of a kind of document; ``name`` is one of ``KINDS``."""
    home, _, attribute = KINDS[name].partition(":")
    kind: type[Document] = getattr(import_module(home), attribute)
    return kind


def kind_name(schema: str) -> str:
    """Return ``plan`` of ``rlmem.plan/1``."""
    return schema.removeprefix("rlmem.").partition("/")[0]


def read_document(data: Any, where: str) -> Document:
    """Read a document of any kind, as any version wrote it.

    Args:
        data: what was read from JSON.
        where: the file or run that an error names.

    Raises:
        UsageError: the data is no document, of no kind that this version reads, or not a complete one.
    """
    schema = schema_name(data, where)
    name = kind_name(schema)
    if name not in KINDS:
        readable = ", ".join(sorted(document_class(name).SCHEMA for name in KINDS))
        raise UsageError(f"{where}: schema {schema!r} is not one this version reads; it reads {readable}")
    return from_plain(document_class(name), data, where)
