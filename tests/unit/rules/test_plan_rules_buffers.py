"""The newer rules about buffers and dtypes on a plan: where they must fire and where they must not."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.findings import Finding
from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.model.constants import Constants
from rlmem.planner import Planner

GB = 10**9
VECTOR = {"type": "box", "shape": [31]}
IMAGE = {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}
FLAT = {"type": "box", "shape": [21_199]}
GOALS = {
    "type": "dict",
    "spaces": {"observation": VECTOR, "achieved_goal": {"type": "box", "shape": [3]}, "desired_goal": VECTOR},
}
ACTION = {"type": "box", "shape": [8]}
SAC = {"framework.name": "sb3", "algorithm": "sac", "observation": VECTOR, "action": ACTION, "buffer_size": 1_000_000}
IMAGES = {**SAC, "observation": IMAGE, "buffer_size": 500_000}
HER = {**SAC, "observation": GOALS, "replay.kind": "her"}
ELEGANT = {
    "framework.name": "elegantrl", "algorithm": "sac", "observation": {"type": "box", "shape": [376]}, "action": ACTION,
    "n_envs": 64, "buffer_size": 100_000,
}  # fmt: skip


def found(fields: dict[str, Any], code: str) -> list[Finding]:
    made: Plan = Planner(Budget(name="test", ram_bytes=64 * GB, vram_bytes=16 * GB, cores=8), Constants()).plan(
        RunSpec().having(fields, "test")
    )
    return [finding for finding in made.findings if finding.code == code]


FIRES: list[tuple[str, dict[str, Any]]] = [
    ("MEM107", {**IMAGES, "total_timesteps": 500_000}),
    ("MEM109", ELEGANT),
    ("MEM110", HER),
    ("MEM203", {**SAC, "observation": FLAT, "buffer_size": 100_000}),
    ("MEM203", {**SAC, "observation": {"type": "dict", "spaces": {"all": FLAT}}, "buffer_size": 100_000}),
]
SILENT: list[tuple[str, dict[str, Any]]] = [
    ("MEM107", IMAGES),
    ("MEM107", {**IMAGES, "total_timesteps": 200_000}),
    ("MEM107", {**IMAGES, "total_timesteps": 5_000_000}),
    ("MEM107", {**SAC, "total_timesteps": 1_000_000}),  # a few hundred megabytes
    ("MEM109", {**ELEGANT, "n_envs": 1}),
    ("MEM109", {**ELEGANT, "buffer_size": 1_000}),
    ("MEM109", {**SAC, "n_envs": 64}),
    ("MEM110", {**HER, "buffer_size": 10_000}),
    ("MEM110", SAC),
    ("MEM203", {**SAC, "observation": {"type": "box", "shape": [6_000]}, "buffer_size": 100_000}),
    ("MEM203", {**SAC, "observation": {**FLAT, "dtype": "uint8"}, "buffer_size": 100_000}),
    ("MEM203", {**SAC, "observation": FLAT, "buffer_size": 100}),
    ("MEM203", IMAGES),
]


@pytest.mark.parametrize(("code", "fields"), FIRES)
def test_a_rule_about_buffers_fires_where_it_should(code: str, fields: dict[str, Any]) -> None:
    assert found(fields, code)


@pytest.mark.parametrize(("code", "fields"), SILENT)
def test_a_rule_about_buffers_is_silent_where_it_should_be(code: str, fields: dict[str, Any]) -> None:
    assert not found(fields, code)


def test_a_buffer_counted_for_each_environment_is_said_in_transitions_and_saves_what_the_division_saves() -> None:
    (finding,) = found(ELEGANT, "MEM109")
    assert "6,400,000 transitions" in finding.title
    assert dict(finding.changes) == {"buffer_size": 1_562}
    assert finding.saves_bytes is not None
    assert finding.saves_bytes > 9 * GB


def test_pixels_of_a_flattened_image_save_three_bytes_of_four() -> None:
    (finding,) = found({**SAC, "observation": FLAT, "buffer_size": 100_000}, "MEM203")
    assert finding.saves_bytes == pytest.approx(2 * 100_000 * 21_199 * 3, rel=0.05)
