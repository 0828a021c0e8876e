"""Calibrations and limits as documents: files of earlier versions, files that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlmem.app.machines import limits_here
from rlmem.documents.calibration import CalibrationDocument
from rlmem.documents.contract import from_plain, to_plain
from rlmem.documents.limits import LimitsDocument
from rlmem.errors import UsageError
from rlmem.report.calibration import calibration_view

WRITTEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "written_by_0" / "calibration.json").read_text(encoding="utf-8")
)
LIMITS = to_plain(limits_here())


def test_a_calibration_of_the_first_version_is_read_and_shown() -> None:
    document = from_plain(CalibrationDocument, WRITTEN, "calibration.json")
    assert [constant.name for constant in document.constants] == [row["name"] for row in WRITTEN["constants"]]
    assert {constant.shipped_bytes for constant in document.constants} == {None}
    assert calibration_view(document).title == f"Calibrated {WRITTEN['python']}"


def test_limits_are_read_as_they_were_written() -> None:
    assert to_plain(from_plain(LimitsDocument, LIMITS, "limits.json")) == LIMITS
    assert sum(limit["decides"] for limit in LIMITS["limits"]) == 1


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({**WRITTEN, "constants": None}, "constants: expected array"),
        ({**WRITTEN, "constants": [{"name": "import.torch"}]}, r"constants\[0\].low_bytes: missing"),
        ({**WRITTEN, "versions": []}, "versions: expected object"),
        ({"schema": "rlmem.calibration/1"}, "not a complete calibration document: python: missing"),
        ({**WRITTEN, "schema": "rlmem.calibration/9"}, "it reads rlmem.calibration/1"),
    ],
)
def test_a_calibration_that_is_none_is_refused_with_the_place(data: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        from_plain(CalibrationDocument, data, "calibration.json")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cores": "many"}, "cores: expected integer"),
        ({"limits": [{}]}, r"limits\[0\].kind: missing"),
        ({"gpus": [{"name": "T4", "total_bytes": -1, "free_bytes": None}]}, "total_bytes: expected integer"),
    ],
)
def test_limits_that_are_none_are_refused_with_the_place(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        from_plain(LimitsDocument, {**LIMITS, **change}, "limits.json")
