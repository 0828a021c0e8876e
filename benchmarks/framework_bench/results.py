"""The results file: one row a case, written after each, so that nothing finished is lost."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

PATH = Path(__file__).resolve().parents[1] / "frameworks.csv"
COLUMNS = (
    "id", "status", "note", "wall_s", "processes", "threads", "tree_bytes", "divided_bytes", "main_bytes", "workers",
    "worker_bytes", "largest_worker_bytes", "ray_processes", "ray_bytes", "store_bytes", "other_bytes", "plan_status",
    "plan_low", "plan_expected", "plan_high", "plan_s", "date", "machine", "versions",
)  # fmt: skip

Row = dict[str, str]


def read(path: Path = PATH) -> dict[str, Row]:
    """Rows by id; none when the file is not there yet."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if any(None in row or "id" not in row or "tree_bytes" not in row for row in rows):
        raise SystemExit(f"{path} is not a results file of this benchmark; move it, or name another with --results")
    return {row["id"]: {name: row.get(name) or "" for name in COLUMNS} for row in rows}


def write(rows: Mapping[str, Row], order: Iterable[str], path: Path = PATH) -> None:
    """Whole or not at all, in the order of the cases; rows of cases that are no more are dropped."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(
                {column: rows[name].get(column, "") for column in COLUMNS} for name in order if name in rows
            )
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def number(row: Mapping[str, str], name: str) -> int | None:
    """A cell as a number; None when it is empty."""
    return int(row[name]) if row.get(name) else None
