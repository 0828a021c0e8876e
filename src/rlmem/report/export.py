"""A sweep as a flat table, one row per measured process, for CSV and Parquet."""

from __future__ import annotations

import csv
import io
from importlib import import_module
from typing import Any

from rlmem.core.points import Point
from rlmem.documents.sweep import SweepDocument
from rlmem.errors import AnalysisError


def flat(document: SweepDocument) -> tuple[list[str], list[list[Any]]]:
    """Column names, and a row for each point; sizes are bytes, and what is not known is empty."""
    rows = [_flat(document, point) for point in document.points]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return columns, [[row.get(name) for name in columns] for row in rows]


def _flat(document: SweepDocument, point: Point) -> dict[str, Any]:
    predicted = point.predicted
    return {
        "run": document.run,
        "target": document.target,
        **{f"vary.{name}": value for name, value in point.values.items()},
        "repeat": point.repeat,
        "status": point.status,
        "peak_bytes": point.peak_bytes,
        "predicted_low_bytes": predicted and predicted.low,
        "predicted_expected_bytes": predicted and predicted.expected,
        "predicted_high_bytes": predicted and predicted.high,
        "error": point.error,
        "wall_s": point.wall_s,
        "note": point.note,
        **({} if point.node is None else {"node": point.node}),
        **{f"phase.{name}_bytes": size for name, size in point.phases.items()},
        **{f"component.{name}_bytes": size for name, size in point.components.items()},
        **{f"vram.{name}_bytes": size for name, size in point.vram.items()},
        **{f"version.{name}": text for name, text in point.versions.items()},
    }


def csv_text(document: SweepDocument) -> str:
    """The table as CSV."""
    columns, rows = flat(document)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return buffer.getvalue()


def load_pyarrow() -> Any:
    """Parquet's library, or an error that names the extra it comes with."""
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        raise AnalysisError("--parquet needs pyarrow: pip install 'rlmem[parquet]', or use --csv") from None


def parquet_bytes(document: SweepDocument) -> bytes:
    """The table as Parquet."""
    arrow, parquet = load_pyarrow()
    columns, rows = flat(document)
    table = arrow.table({name: [row[index] for row in rows] for index, name in enumerate(columns)})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()
