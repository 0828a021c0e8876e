"""``rlmem schema``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlmem.cli.common import emit


@click.command("schema")
@click.argument(
    "which",
    type=click.Choice(
        ["plan", "run", "sweep", "explain", "cluster", "placement", "moment", "recorded", "report", "fit", "lint"]
    ),
    default="plan",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file.")
def command(which: str, output: Path | None) -> int:
    """Print a JSON Schema.

    Of a plan ('plan', the JSON contract), a run file ('run'), a measurement ('sweep'), what 'rlmem workers' ('placement'),
    'rlmem explain' ('explain'), 'rlmem explain --ray' ('cluster') and 'rlmem watch' ('moment') print with --json, a run
    recorded by 'rlmem run' ('recorded'), the data of an HTML report ('report'), or what 'rlmem fit' ('fit') or
    'rlmem lint' ('lint') found.

    \b
    Examples:
      rlmem schema plan > plan.schema.json
      rlmem schema run
      rlmem schema moment
    """
    from rlmem.documents.cluster import ClusterDocument
    from rlmem.documents.contract import schema_of
    from rlmem.documents.explanation import ExplanationDocument
    from rlmem.documents.fit import FitDocument
    from rlmem.documents.moment import MomentDocument
    from rlmem.documents.sweep import SweepDocument
    from rlmem.report.document import PLAN_JSON_SCHEMA
    from rlmem.report.full import REPORT_JSON_SCHEMA
    from rlmem.report.lint import LINT_JSON_SCHEMA
    from rlmem.report.placement import PLACEMENT_JSON_SCHEMA
    from rlmem.report.recorded import RECORDED_JSON_SCHEMA
    from rlmem.run_schema import RUN_JSON_SCHEMA

    schemas = {
        "plan": PLAN_JSON_SCHEMA,
        "run": RUN_JSON_SCHEMA,
        "sweep": schema_of(SweepDocument),
        "explain": schema_of(ExplanationDocument),
        "cluster": schema_of(ClusterDocument),
        "placement": PLACEMENT_JSON_SCHEMA,
        "moment": schema_of(MomentDocument),
        "recorded": RECORDED_JSON_SCHEMA,
        "report": REPORT_JSON_SCHEMA,
        "fit": schema_of(FitDocument),
        "lint": LINT_JSON_SCHEMA,
    }
    emit(json.dumps(schemas[which], indent=2, ensure_ascii=False), output)
    return 0
