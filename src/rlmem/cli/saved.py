"""What commands share about results that were kept: stored runs and saved documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlmem.cli.common import emit, write_whole
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.report.view import View

F = TypeVar("F", bound=Callable[..., Any])


def export_options(function: F) -> F:
    """``--csv`` and ``--parquet``."""
    function = click.option(
        "--parquet",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the points as Parquet too (needs 'rlmem[parquet]').",
    )(function)
    return click.option(
        "--csv",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the points as CSV too: one row per process, sizes in bytes.",
    )(function)


def check_export(output: Path | None, parquet: Path | None) -> None:
    """Fail before hours of measuring rather than after."""
    if parquet is not None or (output is not None and output.suffix.lower() == ".parquet"):
        from rlmem.report.export import load_pyarrow

        load_pyarrow()


def deliver(
    document: Any,
    view: Callable[[Any], View],
    wanted: str,
    output: Path | None,
    csv: Path | None,
    parquet: Path | None,
) -> None:
    """Write the tables asked for, and the report; a table named with ``-o`` is all there is."""
    from rlmem.report.render import render_view

    suffix = output.suffix.lower() if output is not None else ""
    table = suffix in (".csv", ".parquet") and wanted == "text"
    export(
        document, output if table and suffix == ".csv" else csv, output if table and suffix == ".parquet" else parquet
    )
    if not table:
        emit(render_view(document, view, wanted, output), output)


def export(document: Any, csv: Path | None, parquet: Path | None) -> None:
    """Write the points as tables."""
    from rlmem.report.export import csv_text, parquet_bytes

    if csv is not None:
        emit(csv_text(document), csv)
    if parquet is not None:
        write_whole(parquet, parquet_bytes(document))
        click.echo(f"wrote {parquet}", err=True)


def read_file(path: Path) -> Any:
    """The JSON of a saved document."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path}: not a document written by rlmem: nested too deep or with absurd numbers") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
