"""``rlmem show``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from rlmem.cli.common import chosen_format, emit, output_options
from rlmem.errors import UsageError


@click.command("show")
@click.argument("file", type=click.Path(path_type=Path))
@output_options
def command(file: Path, as_json: bool, format_: str | None, output: Path | None) -> int:
    """Show a plan that was saved with --json, whatever version of rlmem wrote it.

    \b
    Examples:
      rlmem plan pidog-sac --ram 30GB -o plan.json
      rlmem show plan.json
      rlmem show plan.json --format markdown
    """
    from rlmem.report.document import read_plan_document
    from rlmem.report.render import render_view
    from rlmem.report.view import plan_view

    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{file}: no such file") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"{file}: not JSON: {error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: not a document written by rlmem: nested too deep or with absurd numbers") from None
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror or error}") from None
    document = read_plan_document(data, str(file))
    emit(render_view(document, plan_view, chosen_format(format_, output, as_json=as_json), output), output)
    return 0
