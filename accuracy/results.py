"""The results: one row an entry in ``results.csv``, and the statistics over them."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PATH = HERE / "results.csv"
MB = 1_000_000
COLUMNS = (
    "id", "kind", "algorithm", "family", "low", "expected", "high", "measured", "error_pct", "increment_error_pct",
    "imported", "hwm", "plan_s", "trace_peak", "truth_s", "processes", "updates", "rows", "capacity", "plan_status",
    "truth_status", "note", "versions", "plan_date", "truth_date",
)  # fmt: skip

#: Strata by what the run adds to its imported libraries, in bytes.
STRATA = ((50 * MB, "under 50 MB"), (500 * MB, "50 to 500 MB"), (2000 * MB, "0.5 to 2 GB"), (None, "over 2 GB"))

Row = dict[str, str]


def read(path: Path = PATH) -> dict[str, Row]:
    """Rows by id; none when the file is not there yet."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {row["id"]: {name: row.get(name) or "" for name in COLUMNS} for row in csv.DictReader(file)}


def write(rows: Mapping[str, Row], order: Sequence[str], path: Path = PATH) -> None:
    """Whole or not at all, in the order of the corpus; rows of entries that left the corpus are dropped."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(handle, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for name in order:
                if name in rows:
                    writer.writerow(with_errors(rows[name]))
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def number(row: Row, name: str) -> float | None:
    """A cell as a number; None when it is empty."""
    text = row.get(name, "")
    return float(text) if text else None


def with_errors(row: Row) -> Row:
    """The row with its errors worked out again."""
    expected, measured, imported = (number(row, name) for name in ("expected", "measured", "imported"))
    error = increment = ""
    if expected is not None and measured:
        error = f"{100 * (expected - measured) / measured:.2f}"
        if imported is not None and measured > imported:
            increment = f"{100 * (expected - measured) / (measured - imported):.2f}"
    return {**{name: row.get(name, "") for name in COLUMNS}, "error_pct": error, "increment_error_pct": increment}


def stratum(row: Row) -> str:
    """How much the run adds to its imports."""
    measured, imported = number(row, "measured"), number(row, "imported")
    added = max((measured or 0) - (imported or 0), 0)
    return next(name for limit, name in STRATA if limit is None or added < limit)


def quantile(values: Iterable[float], share: float) -> float:
    """Between the two nearest values, as numpy does by default."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How a set of rows compares with the goals. Percentages."""

    count: int
    median: float
    p95: float
    bias: float
    broken: float
    headroom: float
    increment_median: float


def scored(rows: Iterable[Row]) -> list[Row]:
    """Rows that have both a plan and a truth."""
    return [row for row in rows if number(row, "expected") is not None and number(row, "measured")]


def score(rows: Iterable[Row]) -> Score | None:
    """Statistics of the rows that have both sides; None when there are none."""
    chosen = scored(rows)
    if not chosen:
        return None
    errors, headroom, increments, broken = [], [], [], 0
    for row in chosen:
        expected, high, measured = (number(row, name) or 0.0 for name in ("expected", "high", "measured"))
        errors.append(100 * (expected - measured) / measured)
        headroom.append(100 * (high - measured) / measured)
        broken += measured > high
        imported = number(row, "imported")
        if imported is not None and measured > imported:
            increments.append(100 * abs(expected - measured) / (measured - imported))
    return Score(
        count=len(chosen),
        median=quantile(map(abs, errors), 0.5),
        p95=quantile(map(abs, errors), 0.95),
        bias=sum(errors) / len(errors),
        broken=100 * broken / len(chosen),
        headroom=sum(headroom) / len(headroom),
        increment_median=quantile(increments, 0.5) if increments else float("nan"),
    )


def grouped(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    """Rows by a key, in the order keys are first seen."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups
