"""Who measures a point of which kind of target."""

from __future__ import annotations

from importlib import import_module

import pytest

from rlmem.app.points import measure_point
from rlmem.core.points import Point, PointLimits, Values
from rlmem.core.target import Target
from rlmem.sources.target import parse_target


@pytest.mark.parametrize(
    ("target", "home"),
    [
        ("pidog-sac", "rlmem.programs.points"),
        ("run.yaml", "rlmem.programs.points"),
        ("train.py", "rlmem.trace.points"),
        ("pkg.train:make_model", "rlmem.trace.points"),
        ("zoo:sac/HalfCheetah-v4", "rlmem.trace.points"),
        ("rllib:config.py:config", "rlmem.trace.rllib_points"),
    ],
)
def test_what_runs_is_run_and_what_is_described_has_a_program(
    target: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fake(target: Target, values: Values, limits: PointLimits) -> Point:
        return Point(values=values, status="ok", peak_bytes=1, note=target.text)

    monkeypatch.setattr(import_module(home), "measure_point", fake)
    values = {"n_envs": 4}
    point = measure_point(parse_target(target), values, PointLimits())
    assert point == Point(values=values, status="ok", peak_bytes=1, note=target)
