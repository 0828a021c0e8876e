"""The plan of the swarm's own code against fresh processes: every rung's peak, and what it stores to the byte."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.core.ledger import Ledger
from rlmem.core.points import PointLimits
from rlmem.programs.cases import settings_case
from rlmem.programs.points import measure_point
from rlmem.sources.target import parse_target
from rlmem.swarm.settings import RUNGS, Settings
from rlmem.swarm.spec import swarm_spec
from truth import PINNED, predicted, run_truth

pytestmark = pytest.mark.truth

SLACK = "runtime.allocator"


def measured(settings: Settings, iterations: int = 1) -> dict[str, Any]:
    """Blocks are returned when they are freed, so that the arithmetic can be checked; one thread, as others test beside."""
    body = {**settings_case(settings).body, "iterations": iterations}
    return run_truth("swarm_run.py", body, env={**PINNED, "OMP_NUM_THREADS": "1"}, timeout=1800)


def peak(ledger: Ledger) -> int:
    """The largest phase up to the update, without what malloc keeps."""
    sizes = {
        phase: sum(
            entry.nbytes for entry in ledger.only(phase=phase).entries if entry.counts and entry.component != SLACK
        )
        for phase in ("collect", "update")
    }
    return max(sizes.values())


def stored(ledger: Ledger) -> dict[str, int]:
    entries = ledger.only(phase="collect").entries
    arrays = [e for e in entries if e.component.startswith(("rollout.", "workers.env-state"))]
    return {e.component: e.nbytes for e in arrays if e.component != "rollout.graph"}


def check(settings: Settings, *, iterations: int = 1, within: float = 0.05) -> None:
    ledger, truth = predicted(swarm_spec(settings)), measured(settings, iterations)
    components = {k: v for k, v in truth["components"].items() if k.startswith(("rollout.", "workers."))}
    assert stored(ledger) == components
    found = max(row["hwm"] for row in truth["phases"].values())
    assert peak(ledger) == pytest.approx(found, rel=within)


@pytest.mark.parametrize("rung", [pytest.param(r.name, marks=[pytest.mark.long] * (r.name != "gyro")) for r in RUNGS])
def test_a_rung_stores_and_peaks_as_planned(rung: str) -> None:
    check(Settings(agents=100, minibatches=1, chunk=16, rung=rung))


@pytest.mark.long
@pytest.mark.parametrize("rung", ["stream", "gyro", "resimulated"])
@pytest.mark.parametrize("chunk", [8, 64])
def test_a_chunk_takes_what_is_planned(rung: str, chunk: int) -> None:
    check(Settings(agents=2000, minibatches=1, chunk=chunk, rung=rung), iterations=2)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes", [{"encoding": "window"}, {"history": "carry"}, {"ae_share": 1.0}, {"steps": 30}, {"imu": "int16"}]
)
def test_another_setting_takes_what_is_planned(changes: dict[str, Any]) -> None:
    check(Settings(**({"agents": 1000, "minibatches": 1, "chunk": 32} | changes)), iterations=2)


@pytest.mark.long
def test_twenty_thousand_drones_peak_as_planned() -> None:
    check(Settings(agents=20_000))


def test_a_preset_with_its_stream_can_be_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    sets = ("storage=stream", "batch_size=800", "network.decoded_steps=10")
    options = PointLimits(cap_bytes=3 * 10**9, time_limit_s=240)
    point = measure_point(parse_target("drone-swarm", sets=sets, python=sys.executable), {"agents": 60}, options)
    assert point.status == "ok", point.note
    assert list(point.phases) == ["import", "build", "collect", "update"]
    assert point.components["rollout.stream"] == 60 * 5_940 == point.predicted_components["rollout.stream"]
    assert point.predicted is not None
    assert point.predicted.low * 0.98 <= (point.peak_bytes or 0) <= point.predicted.high * 1.02
