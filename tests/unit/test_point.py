"""A point as plain data, there and back."""

from __future__ import annotations

import json

import pytest

from rlmem.documents.contract import plain_part, read_part
from rlmem.points import STATUSES, Point, PointProcess, PredictedPeak

POINT = Point(
    values={"agents": 1000, "env": "Größe-v1"},
    status="ok",
    peak_bytes=2_000_000_000,
    phases={"update": 2_000_000_000},
    components={"replay.observations": 1_000_000},
    processes=(PointProcess(pid=1, role="main", hwm_bytes=5, bytes_at_peak=4),),
    versions={"torch": "2.13.0"},
    wall_s=1.5,
    note="fast fill",
    predicted=PredictedPeak(low=1, expected=2_020_000_000, high=3),
)


def test_a_point_survives_json() -> None:
    assert read_part(Point, json.loads(json.dumps(plain_part(POINT)))) == POINT


def test_a_point_of_another_version_is_read() -> None:
    old = {"values": {}, "status": "oom", "peak_bytes": None}
    assert read_part(Point, old) == Point(values={}, status="oom", peak_bytes=None)
    assert read_part(Point, {**plain_part(POINT), "from_the_future": 1}) == POINT


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(ValueError, match="status 'fine' is not one of ok, failed"):
        Point(values={}, status="fine", peak_bytes=None)


def test_the_error_is_a_share_of_the_truth() -> None:
    assert POINT.error == pytest.approx(0.01)


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_a_point_that_did_not_end_well_has_no_error(status: str) -> None:
    assert Point(values={}, status=status, peak_bytes=5, predicted=POINT.predicted).error is None
