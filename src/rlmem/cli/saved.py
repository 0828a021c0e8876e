"""What commands share about results that were kept: stored runs and saved documents."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rlmem.cli.common import Output, emit, write_whole
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.documents.contract import Document
    from rlmem.documents.sweep import SweepDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """Where the points of a measurement are written as tables, beside the report."""

    csv: Path | None = None
    parquet: Path | None = None

    def with_output(self, output: Path | None) -> TableFiles:
        """Return the same with ``-o``, where its name asks for a table."""
        suffix = output.suffix.lower() if output is not None else ""
        if suffix == ".csv":
            return replace(self, csv=output)
        return replace(self, parquet=output) if suffix == ".parquet" else self

    @property
    def is_wanted(self) -> bool:
        """Whether a table is asked for."""
        return self.csv is not None or self.parquet is not None

    def check(self) -> None:
        """Fail before hours of measuring rather than after."""
        if self.parquet is not None:
            from rlmem.report.export import load_pyarrow

            load_pyarrow()

    def write(self, document: SweepDocument) -> None:
        """Write the points of a measurement."""
        from rlmem.report.export import csv_text, parquet_bytes

        if self.csv is not None:
            emit(csv_text(document), self.csv)
        if self.parquet is not None:
            write_whole(self.parquet, parquet_bytes(document))
            click.echo(f"wrote {self.parquet}", err=True)


def export_options(function: Callable[..., int]) -> Callable[..., int]:
    """``--csv`` and ``--parquet``, which a command gets as ``tables``."""

    @wraps(function)
    def command(*, csv: Path | None, parquet: Path | None, **others: Any) -> int:
        return function(tables=TableFiles(csv=csv, parquet=parquet), **others)

    command = click.option(
        "--parquet",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the points as Parquet too (needs 'rlmem[parquet]').",
    )(command)
    return click.option(
        "--csv",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the points as CSV too: one row per process, sizes in bytes.",
    )(command)


def deliver(document: Document, out: Output, tables: TableFiles) -> None:
    """Write the tables asked for, and the report; a table named with ``-o`` is all there is."""
    from rlmem.documents.sweep import SweepDocument

    is_table = out.format == "text" and TableFiles().with_output(out.path).is_wanted
    if isinstance(document, SweepDocument):
        (tables.with_output(out.path) if is_table else tables).write(document)
    if not is_table:
        out.show(document)


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
