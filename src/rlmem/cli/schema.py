"""``rlmem schema``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlmem.cli.common import emit


@click.command("schema")
@click.argument("which", type=click.Choice(["plan", "run"]), default="plan")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file.")
def command(which: str, output: Path | None) -> int:
    """Print a JSON Schema: of a plan ('plan', the JSON contract) or of a run file ('run').

    \b
    Examples:
      rlmem schema plan > plan.schema.json
      rlmem schema run
    """
    from rlmem.report.document import PLAN_JSON_SCHEMA
    from rlmem.run_schema import RUN_JSON_SCHEMA

    schema = PLAN_JSON_SCHEMA if which == "plan" else RUN_JSON_SCHEMA
    emit(json.dumps(schema, indent=2, ensure_ascii=False), output)
    return 0
