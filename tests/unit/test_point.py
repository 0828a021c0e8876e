"""A point as plain data, there and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rlmem.core.ledger import Ledger
from rlmem.core.points import STATUSES, Point, PointProcess, PredictedPeak
from rlmem.documents.contract import read_part, to_plain

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
    assert read_part(Point, json.loads(json.dumps(to_plain(POINT)))) == POINT


def test_a_point_of_another_version_is_read() -> None:
    old = {"values": {}, "status": "oom", "peak_bytes": None}
    assert read_part(Point, old) == Point(values={}, status="oom", peak_bytes=None)
    assert read_part(Point, {**to_plain(POINT), "from_the_future": 1}) == POINT


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(ValueError, match="status 'fine' is not one of ok, failed"):
        Point(values={}, status="fine", peak_bytes=None)


def test_the_error_is_a_share_of_the_truth() -> None:
    assert POINT.error == pytest.approx(0.01)


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_a_point_that_did_not_end_well_has_no_error(status: str) -> None:
    assert Point(values={}, status=status, peak_bytes=5, predicted=POINT.predicted).error is None


def held(ledger: Ledger, phase: str, device: str = "ram") -> dict[tuple[str, str, str], int]:
    rows = ledger.only(phase=phase, device=device).entries
    return {(entry.component, entry.process, entry.residency): entry.nbytes for entry in rows}


MEASURED = Point(
    values={},
    status="ok",
    peak_bytes=1000,
    phases={"import": 300, "update": 900, "final": 5},
    components={"replay.observations": 500, "replay.rewards": 20},
    processes=(
        PointProcess(role="main", bytes_at_peak=700),
        PointProcess(role="worker", bytes_at_peak=100),
        PointProcess(role="worker", bytes_at_peak=150),
        PointProcess(role="resource tracker", bytes_at_peak=None),
    ),
)


def test_the_ledger_of_a_point_needs_its_peak_in_the_largest_phase() -> None:
    ledger = MEASURED.ledger()
    assert [(peak.phase, peak.expected_bytes) for peak in ledger.peaks()] == [("update", 1000), ("import", 300)]
    assert held(ledger, "update") == {
        ("replay.rewards", "main", "resident"): 20,
        ("workers", "workers", "resident"): 250,
        ("replay.observations", "main", "resident"): 500,
        ("unexplained", "main", "resident"): 230,
    }
    assert held(ledger, "import") == {("unexplained", "main", "resident"): 300}
    assert {(entry.basis, entry.amount.low, entry.amount.high) for entry in ledger.only(phase="import").entries} == {
        ("measured", 300, 300)
    }


def test_what_is_larger_than_the_peak_has_pages_that_nothing_has_touched() -> None:
    ledger = replace(MEASURED, processes=(), components={"replay.observations": 4000, "replay.rewards": 20}).ledger()
    assert held(ledger, "update") == {
        ("replay.rewards", "main", "resident"): 20,
        ("replay.observations", "main", "resident"): 980,
        ("replay.observations", "main", "reserved"): 3020,
    }


def test_a_point_that_ran_out_had_its_peak_after_the_phases_it_had_finished() -> None:
    point = Point(values={}, status="oom", peak_bytes=1000, phases={"import": 300, "build": 400})
    assert next((peak.phase, peak.expected_bytes) for peak in point.ledger().peaks()) == ("collect", 1000)
    assert replace(point, phases={}).ledger().phases == ("update",)
    assert Point(values={}, status="failed", peak_bytes=None).ledger().entries == ()


def test_roles_of_rllib_are_a_process_each() -> None:
    sizes = {"process.env-runner": 200, "process.driver": 300}
    assert held(replace(MEASURED, components=sizes).ledger(), "update") == {
        ("process.env-runner", "env-runner", "resident"): 200,
        ("process.driver", "driver", "resident"): 300,
        ("unexplained", "main", "resident"): 500,
    }


def test_vram_is_what_torch_allocated_its_cache_and_the_context() -> None:
    ledger = replace(MEASURED, vram={"allocated": 10, "reserved": 12, "process": 30}).ledger()
    assert {name: nbytes for (name, _, _), nbytes in held(ledger, "update", "vram").items()} == {
        "unexplained": 10,
        "runtime.allocator-cache": 2,
        "runtime.cuda-context": 18,
    }
