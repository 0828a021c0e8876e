"""What commands share about results that were kept: stored runs and saved documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rlmem.cli.common import emit, write_whole
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.report.view import View
    from rlmem.runner.store import Run, Store

F = TypeVar("F", bound=Callable[..., Any])
#: Schema to the module that knows it, its reader and its view.
DOCUMENTS = {
    "rlmem.plan/1": ("rlmem.report.document", "read_plan_document", "rlmem.report.view", "plan_view"),
    "rlmem.sweep/1": ("rlmem.report.sweep", "read_sweep_document", "rlmem.report.sweep_view", "sweep_view"),
    "rlmem.bench/1": ("rlmem.report.bench", "read_bench_document", "rlmem.report.bench", "bench_view"),
    "rlmem.recorded/1": ("rlmem.report.recorded", "read_recorded_document", "rlmem.report.recorded", "recorded_view"),
}


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
    document: dict[str, Any],
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


def export(document: dict[str, Any], csv: Path | None, parquet: Path | None) -> None:
    """Write the points as tables."""
    from rlmem.report.export import csv_text, parquet_bytes

    if csv is not None:
        emit(csv_text(document), csv)
    if parquet is not None:
        write_whole(parquet, parquet_bytes(document))
        click.echo(f"wrote {parquet}", err=True)


def read_document(data: Any, where: str) -> tuple[dict[str, Any], Callable[[Any], View]]:
    """A document of any kind and version, checked, and the function that views it."""
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str):
        raise UsageError(f"{where}: not a document written by rlmem (no 'schema' field)")
    if schema not in DOCUMENTS:
        raise UsageError(f"{where}: schema {schema!r} is not one this version reads; it reads {', '.join(DOCUMENTS)}")
    home, reader, view_home, view = DOCUMENTS[schema]
    return getattr(import_module(home), reader)(data, where), getattr(import_module(view_home), view)


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


def run_document(store: Store, run: Run) -> dict[str, Any]:
    """The document of a stored run; made of points or moments where it has them, so one cut short has one too."""
    if run.kind == "run":
        from rlmem.report.recorded import recorded_document

        return recorded_document(run.document, store.timeline(run.id), run)
    if run.kind != "measure":
        return run.document
    from rlmem.report.sweep import sweep_document

    return sweep_document(run, run.document, store.points(run.id))


def is_run(text: str) -> bool:
    """Whether a word on the command line means a stored run: a file or preset of that name comes first."""
    from rlmem.runner.store import looks_like_run
    from rlmem.sources.preset import PRESETS

    return looks_like_run(text) and text not in PRESETS and not Path(text).exists()
