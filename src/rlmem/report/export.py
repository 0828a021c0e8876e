"""A sweep as a flat table, one row per measured process, for CSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rlmem.errors import AnalysisError


def flat(document: Mapping[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Column names, and a row for each point; sizes are bytes, and what is not known is empty."""
    rows = [_flat(document, point) for point in document["points"]]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return columns, [[row.get(name) for name in columns] for row in rows]


def _flat(document: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    predicted = point["predicted"] or {}
    ended = point["status"] == "ok" and point["peak_bytes"] and predicted
    return {
        "run": document["run"],
        "target": document["target"],
        **{f"vary.{name}": value for name, value in point["values"].items()},
        "repeat": point["repeat"],
        "status": point["status"],
        "peak_bytes": point["peak_bytes"],
        **{f"predicted_{key}_bytes": predicted.get(key) for key in ("low", "expected", "high")},
        "error": predicted["expected"] / point["peak_bytes"] - 1 if ended else None,
        "wall_s": point["wall_s"],
        "note": point["note"],
        **({} if point.get("node") is None else {"node": point["node"]}),
        **{f"phase.{name}_bytes": size for name, size in point["phases"].items()},
        **{f"component.{name}_bytes": size for name, size in point["components"].items()},
        **{f"vram.{name}_bytes": size for name, size in point.get("vram", {}).items()},
        **{f"version.{name}": text for name, text in point["versions"].items()},
    }


def csv_text(document: Mapping[str, Any]) -> str:
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


def parquet_bytes(document: Mapping[str, Any]) -> bytes:
    """The table as Parquet."""
    arrow, parquet = load_pyarrow()
    columns, rows = flat(document)
    table = arrow.table({name: [row[index] for row in rows] for index, name in enumerate(columns)})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    return buffer.getvalue()
