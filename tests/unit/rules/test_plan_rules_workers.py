"""The newer rules about rollouts, learners and workers on a plan: where they must fire and where they must not."""

from __future__ import annotations

from typing import Any

import pytest

from rlmem.core.findings import Finding
from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm, Planner
from rlmem.rules import find_rule
from rlmem.rules.shared_memory import SharedMemory, check
from rlmem.units import format_size

GB, MIB = 10**9, 1 << 20
IMAGE = {"type": "box", "shape": [144, 160, 3], "dtype": "uint8"}
VECTOR = {"type": "box", "shape": [31]}
PPO = {
    "framework.name": "sb3", "algorithm": "ppo", "observation": VECTOR, "action": {"type": "discrete", "n": 6},
    "n_envs": 8, "n_steps": 2048, "batch_size": 256,
}  # fmt: skip
IMAGES = {**PPO, "observation": IMAGE}
RECURRENT = {**PPO, "algorithm": "recurrent_ppo", "network.lstm_hidden": 256}
SAC = {
    "framework.name": "sb3", "algorithm": "sac", "observation": VECTOR, "action": {"type": "box", "shape": [8]},
    "buffer_size": 10_000,
}  # fmt: skip


def planner(ram: int = 64 * GB, name: str = "test") -> Planner:
    return Planner(Budget(name=name, ram_bytes=ram, vram_bytes=16 * GB, cores=8), Constants())


def plan(fields: dict[str, Any], **more: Any) -> Plan:
    return planner(**more).plan(RunSpec().having(fields, "test"))


def found(fields: dict[str, Any], code: str, **more: Any) -> list[Finding]:
    return [finding for finding in plan(fields, **more).findings if finding.code == code]


FIRES: list[tuple[str, dict[str, Any]]] = [
    ("MEM307", IMAGES),
    ("MEM308", RECURRENT),
    ("MEM403", {**SAC, "observation": {"type": "box", "shape": [21_199]}}),
    ("MEM403", {**IMAGES, "network.extractor": "flatten"}),
    ("MEM502", {**PPO, "vec_env": "subproc"}),
]
SILENT: list[tuple[str, dict[str, Any]]] = [
    ("MEM307", {**IMAGES, "n_steps": 128}),
    ("MEM307", PPO),
    ("MEM307", {**PPO, "n_steps": 2_000_000}),  # large, but not because of images
    ("MEM307", {**SAC, "observation": IMAGE}),
    ("MEM308", {**RECURRENT, "n_envs": 1, "n_steps": 128, "network.lstm_hidden": 32}),
    ("MEM308", PPO),
    ("MEM403", IMAGES),
    ("MEM403", SAC),
    ("MEM502", PPO),
    ("MEM502", {**PPO, "vec_env": "subproc", "n_envs": 2}),
    ("MEM502", {**PPO, "vec_env": "subproc", "env.bytes": 200 * MIB}),  # a simulator is worth a process
    ("MEM508", {**PPO, "env.shared_memory": True}),  # planned for another machine
]


@pytest.mark.parametrize(("code", "fields"), FIRES)
def test_a_newer_rule_fires_on_a_plan_where_it_should(code: str, fields: dict[str, Any]) -> None:
    assert found(fields, code)


@pytest.mark.parametrize(("code", "fields"), SILENT)
def test_a_newer_rule_is_silent_on_a_plan_where_it_should_be(code: str, fields: dict[str, Any]) -> None:
    assert not found(fields, code)


def test_a_rollout_is_a_warning_when_it_takes_a_quarter_of_the_budget() -> None:
    assert found(IMAGES, "MEM307", ram=64 * GB)[0].severity == "info"
    assert found(IMAGES, "MEM307", ram=4 * GB)[0].severity == "warning"


def test_half_the_steps_save_at_least_half_the_rollout() -> None:
    (finding,) = found(IMAGES, "MEM307")
    assert (finding.saves_bytes or 0) >= 8 * 2048 * 144 * 160 * 3 // 2


def test_recurrent_states_are_four_arrays_whether_or_not_the_critic_has_an_lstm() -> None:
    stored = 4 * 2048 * 8 * 256 * 4
    for own in (True, False):
        (finding,) = found({**RECURRENT, "network.critic_lstm": own}, "MEM308")
        assert format_size(stored) in finding.title


def test_convolutions_are_suggested_for_images_only() -> None:
    image = found({**IMAGES, "network.extractor": "flatten"}, "MEM403")[0]
    vector = found({**SAC, "observation": {"type": "box", "shape": [21_199]}}, "MEM403")[0]
    assert image.remedy == "CnnPolicy"
    assert "CnnPolicy" not in (vector.remedy or "")


@pytest.mark.parametrize(
    ("size", "n_envs", "fires"), [(64 * MIB, 2_000, True), (64 * MIB, 8, False), (10 * GB, 2_000, False)]
)
def test_shared_observations_are_compared_with_the_size_of_dev_shm(size: int, n_envs: int, fires: bool) -> None:
    spec = RunSpec().having({**IMAGES, "n_envs": n_envs, "n_steps": 16, "env.shared_memory": True}, "test")
    here = planner(name="this machine")
    subject = ClosedForm(here.constants).subject(spec, here.budget)
    shared = SharedMemory(size_bytes=size, free_bytes=size)
    assert bool(list(check(find_rule("MEM508")[0], subject, lambda: shared))) is fires
    assert not list(check(find_rule("MEM508")[0], subject, lambda: None))
