"""``rlmem schema``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlmem.cli.common import emit
from rlmem.documents.kinds import KINDS


@click.command("schema")
@click.argument(
    "which",
    type=click.Choice(sorted({*KINDS, "run"})),
    default="plan",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write to a file.")
def command(which: str, output: Path | None) -> int:
    """Print a JSON Schema.

    Of a run file ('run'), or of what a command prints with --json. A plan is 'plan', a measurement 'sweep', 'rlmem workers'
    prints 'placement', 'rlmem explain --ray' 'cluster', 'rlmem watch' 'moment'. A run that 'rlmem run' recorded is 'recorded',
    the data of an HTML report 'report', 'rlmem machines --here' prints 'limits', 'rlmem plan --why' 'formulas' and 'rlmem rule'
    'rules'. 'capacity-curve', 'fields', 'processes' and 'zoo' are answers of 'rlmem serve'. The others are named after their command.

    \b
    Examples:
      rlmem schema plan > plan.schema.json
      rlmem schema run
      rlmem schema moment
    """
    from rlmem.core.run_schema import RUN_JSON_SCHEMA
    from rlmem.documents.contract import schema_of
    from rlmem.documents.kinds import document_class

    schema = RUN_JSON_SCHEMA if which == "run" else schema_of(document_class(which))
    emit(json.dumps(schema, indent=2, ensure_ascii=False), output)
    return 0
