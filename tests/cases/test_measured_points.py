"""Described runs measured for real through the programs: small points in fresh processes."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.core.points import PointLimits
from rlmem.programs.points import measure_point
from rlmem.sources.target import parse_target
from rlmem.units import MIB

pytestmark = pytest.mark.truth

LIMITS = PointLimits(cap_bytes=3 * 10**9, time_limit_s=240)


@pytest.mark.long
def test_a_swarm_point_has_the_plans_arrays_to_the_byte_and_peaks_where_planned() -> None:
    point = measure_point(parse_target("drone-swarm", python=sys.executable), {"agents": 30}, LIMITS)
    assert point.status == "ok", point.note
    assert point.components["rollout.observations"] == point.predicted_components["rollout.observations"]
    assert list(point.phases) == ["import", "build", "collect", "update"]
    assert point.predicted is not None
    assert point.predicted.low * 0.98 <= (point.peak_bytes or 0) <= point.predicted.high * 1.02


def test_a_replay_point_is_filled_and_says_so() -> None:
    point = measure_point(parse_target("pidog-sac-vector", python=sys.executable), {"buffer_size": 50_000}, LIMITS)
    assert point.status == "ok", point.note
    stored = {name: size for name, size in point.components.items() if name.startswith("replay.")}
    assert stored == {name: point.predicted_components[name] for name in stored}
    assert point.phases["collect"] - point.phases["build"] > 0.95 * sum(stored.values())
    assert "replay filled" in point.note
    assert point.error is not None
    assert abs(point.error) < 0.12


def test_a_short_run_fills_a_part_of_its_buffer_as_planned() -> None:
    """250,000 of 1,000,000 rows of 292 bytes: a full buffer would need 209 MiB more."""
    point = measure_point(
        parse_target("pidog-sac-vector", python=sys.executable),
        {"buffer_size": 1_000_000, "total_timesteps": 250_000},
        LIMITS,
    )
    assert point.status == "ok", point.note
    stored = {name: size for name, size in point.components.items() if name.startswith("replay.")}
    assert stored == {name: point.predicted_components[name] for name in stored}
    assert 0.25 * 0.95 < (point.phases["collect"] - point.phases["build"]) / sum(stored.values()) < 0.5
    assert point.error is not None
    assert abs(point.error) < 0.12


def test_a_point_over_the_cap_is_a_row_that_says_what_it_lacks() -> None:
    options = PointLimits(cap_bytes=700 * MIB, time_limit_s=240)
    point = measure_point(parse_target("drone-swarm", python=sys.executable), {"agents": 120}, options)
    assert point.status == "oom"
    assert "more in update: learner.activations (by the plan)" in point.note
