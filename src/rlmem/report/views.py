"""The view of each kind of document."""

from __future__ import annotations

from importlib import import_module

from rlmem.documents.contract import Document
from rlmem.documents.kinds import kind_name
from rlmem.report.view import View

#: The name of a kind to the function that arranges a document of it, loaded when it is asked for.
VIEWS = {
    "assessment": "rlmem.report.assess:assessment_view",
    "bench": "rlmem.report.bench:bench_view",
    "calibration": "rlmem.report.calibration:calibration_view",
    "capacity": "rlmem.report.capacity:capacity_view",
    "capacity-curve": "rlmem.report.capacity:curve_view",
    "cluster": "rlmem.report.cluster_view:cluster_view",
    "compare": "rlmem.report.compare:compare_view",
    "compare-recorded": "rlmem.report.compare_recorded:compare_recorded_view",
    "compare-sweeps": "rlmem.report.compare_sweeps:compare_sweeps_view",
    "explain": "rlmem.report.explain:explain_view",
    "fields": "rlmem.report.serve_tables:fields_view",
    "fit": "rlmem.report.fit:fit_view",
    "formulas": "rlmem.report.plan:formulas_view",
    "limits": "rlmem.report.machines:limits_view",
    "lint": "rlmem.report.lint:lint_view",
    "lint-baseline": "rlmem.report.lint:baseline_view",
    "machines": "rlmem.report.machines:machines_view",
    "max-buffer": "rlmem.report.max_buffer:max_buffer_view",
    "moment": "rlmem.report.watch:moment_view",
    "placement": "rlmem.report.placement:placement_view",
    "plan": "rlmem.report.plan:plan_view",
    "polled-moment": "rlmem.report.watch:moment_view",
    "presets": "rlmem.report.presets:presets_view",
    "processes": "rlmem.report.serve_tables:processes_view",
    "recorded": "rlmem.report.recorded:recorded_view",
    "report": "rlmem.report.plan:report_view",
    "rules": "rlmem.report.rules:rules_view",
    "runs": "rlmem.report.runs:runs_view",
    "stacks": "rlmem.report.stacks:stacks_view",
    "swarm-ladder": "rlmem.report.ladder:ladder_view",
    "swarm-train": "rlmem.report.swarm:train_view",
    "sweep": "rlmem.report.sweep_view:sweep_view",
    "zoo": "rlmem.report.serve_tables:zoo_view",
}


def view_of(document: Document) -> View:
    """Return the sentences and tables of a document, as ``rlmem show`` draws them."""
    home, _, function = VIEWS[kind_name(document.SCHEMA)].partition(":")
    view: View = getattr(import_module(home), function)(document)
    return view
