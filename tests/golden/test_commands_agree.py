"""What commands print of one script does not contradict: the golden files of its stored dry run, held against each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent / "data" / "dryruns"
SIZES = ("low_bytes", "expected_bytes", "high_bytes")


def document(name: str, command: str) -> Any:
    return json.loads((DATA / name / f"{command}.json").read_text(encoding="utf-8"))["document"]


def ram(peaks: list[dict[str, Any]]) -> tuple[int, ...]:
    (peak,) = (peak for peak in peaks if peak["device"] == "ram" and peak["is_peak"])
    return tuple(peak[size] for size in SIZES)


@pytest.mark.parametrize("command", ["capacity", "fit", "assess"])
def test_the_run_as_it_is_has_the_peak_of_its_plan(command: str) -> None:
    planned, other = ram(document("sac", "plan")["peaks"]), document("sac", command)
    if command == "capacity":
        (row,) = (row for row in other["values"] if row["value"] == 1_000_000)
        assert ram(row["peaks"]) == planned
    elif command == "fit":
        assert ram(other["before"]["peaks"]) == planned
    else:
        assert ram(other["plan"]["peaks"]) == planned
        assert planned in [ram(row["peaks"]) for row in other["capacity"]["rows"]]
