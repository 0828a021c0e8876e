"""Every rule where it must fire and where it must not, and what holds for all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlmem.core.findings import Finding
from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.model.constants import Constants
from rlmem.planner import Planner
from rlmem.rules import find_rule, rules

GB = 10**9
IMAGE = {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}
VECTOR = {"type": "box", "shape": [31]}
MIXED = {"type": "dict", "spaces": {"image": IMAGE, "vector": VECTOR}}
CONTINUOUS, BUTTONS = {"type": "box", "shape": [8]}, {"type": "discrete", "n": 6}
SAC = {"algorithm": "sac", "observation": VECTOR, "action": CONTINUOUS, "buffer_size": 1_000_000}
PPO = {"algorithm": "ppo", "observation": IMAGE, "action": BUTTONS, "n_envs": 2, "n_steps": 2048, "batch_size": 512}
SWARM = {
    "framework.name": "swarm", "algorithm": "ppo", "observation": {"type": "window", "sample": 6, "extra": 4, "step": 10},
    "history": 60, "action": {"type": "box", "shape": [4]}, "agents": 500, "n_steps": 100,
    "network.modules": {"encoder": ["conv1d 16 k5 s2 p2", "relu", "flatten", "linear 20", "tanh"],
                        "policy": ["linear 64", "relu", "linear 4"], "value": ["linear 1"]},
}  # fmt: skip


def plan(*parts: dict[str, Any], ram: int = 64 * GB, cores: int | None = 8, **fields: Any) -> Plan:
    merged: dict[str, Any] = {"framework.name": "sb3"}
    for part in (*parts, fields):
        merged |= part
    budget = Budget(name="test", ram_bytes=ram, vram_bytes=16 * GB, cores=cores)
    return Planner(budget, Constants()).plan(RunSpec().having(merged, "test"))


def found(made: Plan, code: str) -> list[Finding]:
    return [finding for finding in made.findings if finding.code == code]


FIRES: list[tuple[str, dict[str, Any]]] = [
    ("MEM001", {**SAC, "observation": MIXED, "buffer_size": 10_000_000}),
    ("MEM101", SAC),
    ("MEM102", {**PPO, "frame_stack": 4}),
    ("MEM102", {**SAC, "observation": IMAGE, "stacked": {"observation": 3}}),
    ("MEM103", SWARM),
    ("MEM103", {**SAC, "observation": {"type": "window", "sample": 6, "extra": 4, "step": 10}, "history": 300}),
    ("MEM104", {**SAC, "optimize_memory_usage": True, "handle_timeout_termination": True}),
    ("MEM104", {**SAC, "action": BUTTONS}),
    ("MEM104", {**SAC, "replay.kind": "n-step", "framework.version": "2.3.2"}),
    ("MEM104", {**SAC, "replay.kind": "her"}),
    ("MEM105", {**SAC, "observation": MIXED, "unused_keys": ["image"], "buffer_size": 100_000}),
    ("MEM105", {**SAC, "observation": MIXED, "constant_keys": ["image"], "buffer_size": 100_000}),
    ("MEM201", {**PPO, "framework.version": "2.7.0"}),
    ("MEM201", {**SAC, "observation": {**IMAGE, "dtype": "float32", "low": 0, "high": 1}, "buffer_size": 10_000}),
    ("MEM202", {**SAC, "observation": {"type": "box", "shape": [348], "dtype": "float64"}}),
    ("MEM301", {**PPO, "batch_size": 10_000}),
    ("MEM302", {**PPO, "batch_size": 500}),
    ("MEM303", {**PPO, "episode_length": 100}),
    ("MEM303", {**PPO, "episode_length": 50_000}),
    ("MEM304", {**PPO, "n_steps": 20_000, "batch_size": 64}),
    ("MEM305", {**SWARM, "rollout.store": "list-then-stack"}),
    ("MEM306", {**SWARM, "rollout.keeps_graph": True}),
    ("MEM401", SWARM),
    ("MEM402", {**SAC, "observation": IMAGE, "buffer_size": 1000}),
    ("MEM501", {**SAC, "threads": 53}),
    ("MEM801", {**PPO, "vec_env": "subproc", "eval.n_envs": 2, "eval.vec_env": "subproc"}),
    ("MEM802", {**PPO, "eval.n_envs": 1, "eval.attached": False}),
    ("MEM803", {**SAC, "resume.replay_buffer": "beside-live"}),
    ("MEM804", {**PPO, "checkpoint.save_freq": 1000}),
    ("MEM804", {**SAC, "n_envs": 4, "checkpoint.save_freq": 50_000}),
    ("MEM901", {**PPO, "settings": {"SAVE_REPLAY_BUFFER": True}}),
    ("MEM901", {**PPO, "buffer_size": 1000}),
    ("MEM901", {**PPO, "device": "cuda", "settings": {"empty_cache": True}}),
]
SILENT: list[tuple[str, dict[str, Any]]] = [
    ("MEM001", SAC),
    ("MEM002", SAC),
    ("MEM101", {**SAC, "optimize_memory_usage": True}),
    ("MEM101", {**SAC, "buffer_size": 1000}),
    ("MEM101", PPO),
    ("MEM101", {**SAC, "storage": "compact"}),
    ("MEM101", {**SAC, "buffer_size": 100_000}),  # saves less than importing numba costs
    ("MEM101", {**SAC, "observation": IMAGE, "frame_stack": 4}),  # MEM102 has the same remedy, and saves it all
    ("MEM102", PPO),
    ("MEM102", {**PPO, "frame_stack": 4, "storage": "frames-once"}),
    ("MEM103", {**SWARM, "storage": "stream"}),
    ("MEM103", {**SAC, "observation": {"type": "window", "sample": 6, "step": 10}, "history": 300, "storage": "compact"}),
    ("MEM104", {**SAC, "observation": MIXED, "optimize_memory_usage": True, "storage": "compact"}),
    ("MEM104", {**SAC, "replay.kind": "prioritised", "storage": "compact"}),
    ("MEM105", {**SAC, "observation": MIXED, "constant_keys": ["image"], "storage": "compact"}),
    ("MEM304", {**PPO, "n_steps": 20_000, "batch_size": 64, "storage": "compact"}),
    ("MEM104", {**SAC, "optimize_memory_usage": True}),
    ("MEM105", {**SAC, "observation": MIXED}),
    ("MEM201", PPO),
    ("MEM201", {**PPO, "observation": MIXED}),
    ("MEM201", {**PPO, "observation": VECTOR, "framework.version": "2.3.2"}),
    ("MEM202", SAC),
    ("MEM301", PPO),
    ("MEM302", PPO),
    ("MEM303", PPO),
    ("MEM304", {**PPO, "n_envs": 1}),
    ("MEM305", SWARM),
    ("MEM306", SWARM),
    ("MEM401", {**SWARM, "batch_size": 1000}),
    ("MEM401", {"algorithm": "a2c", "observation": VECTOR, "action": BUTTONS}),
    ("MEM402", PPO),
    ("MEM501", {**SAC, "threads": 4}),
    ("MEM801", {**PPO, "eval.n_envs": 1}),
    ("MEM802", {**PPO, "eval.n_envs": 1}),
    ("MEM803", {**SAC, "resume.replay_buffer": "into-new"}),
    ("MEM804", {**PPO, "n_envs": 1, "checkpoint.save_freq": 1000}),
    ("MEM901", PPO),
]  # fmt: skip


@pytest.mark.parametrize(("code", "fields"), FIRES)
def test_a_rule_fires_where_it_should(code: str, fields: dict[str, Any]) -> None:
    assert found(plan(fields), code)


@pytest.mark.parametrize(("code", "fields"), SILENT)
def test_a_rule_is_silent_where_it_should_be(code: str, fields: dict[str, Any]) -> None:
    assert not found(plan(fields), code)


def test_tight_fires_when_only_the_upper_bound_is_over() -> None:
    peak = plan(SAC).deciding
    made = plan(SAC, ram=(peak.expected_bytes + peak.high_bytes) // 2)
    assert made.verdict == "tight"
    assert found(made, "MEM002")


@pytest.mark.parametrize(("code", "fields"), FIRES)
def test_no_finding_claims_a_negative_saving_and_only_dead_settings_claim_none(
    code: str, fields: dict[str, Any]
) -> None:
    for finding in plan(fields).findings:
        assert finding.saves_bytes is None or finding.saves_bytes > 0 or finding.code == "MEM901"


def test_every_rule_is_tested_here_and_has_a_manual_page() -> None:
    beside = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_plan_rules_*.py"))
    for rule in rules("plan"):
        assert rule.code in {*dict(FIRES), "MEM002"} or f'("{rule.code}", ' in beside, rule.code
    for rule in rules():
        _, page = find_rule(rule.name)
        assert len(page.split("\n\n")) >= 2
        assert find_rule(rule.code.lower())[0].code == rule.code


def test_the_remedy_for_a_run_that_does_not_fit_makes_it_fit() -> None:
    fields = {**SAC, "observation": MIXED, "buffer_size": 10_000_000}
    (finding,) = found(plan(fields), "MEM001")
    assert plan(fields, dict(finding.changes)).verdict in ("fits", "tight")


def test_a_remedy_is_found_for_the_device_that_is_over_whatever_the_other_does() -> None:
    big = {**PPO, "device": "cuda", "n_envs": 16, "n_steps": 16_384, "batch_size": 40_000}
    (finding,) = found(plan(big, ram=8 * GB), "MEM001")[:1]
    assert finding.changes


def test_a_what_if_that_cannot_be_planned_costs_the_finding_its_saving_not_the_plan() -> None:
    tiny = {"type": "dict", "spaces": {"image": {**IMAGE, "shape": [12, 12, 1]}, "v": VECTOR}}
    made = plan(
        {**SAC, "observation": tiny, "unused_keys": ["v"], "buffer_size": 1000},
        {"network.extractor": {"image": ["flatten", "linear 8"], "v": ["flatten"]}},
    )
    assert found(made, "MEM105")


def test_a_run_that_the_framework_refuses_is_said_first_and_exits_1() -> None:
    made = plan(SAC, observation=MIXED, buffer_size=10_000, optimize_memory_usage=True)
    assert made.verdict == "fits"
    assert made.exit_code == 1
    assert made.findings[0].code == "MEM104"


@pytest.mark.parametrize(("samples", "batch", "word"), [(4096, 500, "batch_size=512"), (2039, 500, "choose n_steps")])
def test_a_divisor_is_suggested_only_when_one_is_near(samples: int, batch: int, word: str) -> None:
    (finding,) = found(plan(PPO, n_envs=1, n_steps=samples, batch_size=batch), "MEM302")
    assert word in (finding.remedy or "")


def remedy(made: Plan, code: str) -> str:
    (finding,) = found(made, code)
    return finding.remedy or ""


def test_next_observations_and_stacks_name_the_buffer_and_the_argument() -> None:
    assert "replay_buffer_class=CompactReplayBuffer" in remedy(plan(SAC), "MEM101")
    stacked = plan(SAC, observation=IMAGE, frame_stack=4, buffer_size=100_000)
    assert "replay_buffer_class=CompactReplayBuffer" in remedy(stacked, "MEM102")
    assert "stored 8 times" in found(stacked, "MEM102")[0].title
    assert "rollout_buffer_class=CompactRolloutBuffer" in remedy(plan(PPO, frame_stack=4), "MEM102")
    assert "optimize_memory_usage" not in remedy(plan(SAC), "MEM101")


def test_a_window_with_further_values_is_told_to_give_them_a_key() -> None:
    window = {"type": "window", "sample": 6, "extra": 4, "step": 10}
    text = remedy(plan(SAC, observation=window, history=300), "MEM103")
    assert "CompactReplayBuffer" in text
    assert "4 other values in a key of their own" in text


def test_a_sample_of_the_data_says_what_a_codec_saves_beyond_that() -> None:
    sampled = {"coded_bytes": {"image": [4_000, 5_000, 8_000], "vector": [124, 124, 124]}}
    text = remedy(plan(SAC, sampled, observation=MIXED), "MEM101")
    assert 'replay_buffer_kwargs={"codec": "auto"} saves 15.1 GiB more (12.2 GiB to 16.1 GiB)' in text
    assert "codec" not in remedy(plan(SAC, observation=MIXED), "MEM101")


def test_a_run_that_does_not_fit_is_told_when_another_buffer_is_enough() -> None:
    big = plan(SAC, observation=MIXED, ram=24 * GB)
    assert "or as it is with CompactReplayBuffer: " in remedy(big, "MEM001")
    assert "it then fits" in remedy(big, "MEM101")
    huge = plan(SAC, observation=MIXED, buffer_size=3_000_000, ram=24 * GB)
    assert "as it is" not in remedy(huge, "MEM001")
    assert "still too much then" in remedy(huge, "MEM101")


def test_no_larger_buffer_is_recommended_and_nothing_is_called_idle() -> None:
    roomy = plan(SAC, buffer_size=1000, ram=1000 * GB)
    texts = [f"{finding.title} {finding.remedy}" for finding in (*roomy.findings, *plan(SAC, ram=1000 * GB).findings)]
    assert texts
    assert not any("up to" in text or "idle" in text for text in texts)


def test_loading_beside_a_live_compact_buffer_names_restore() -> None:
    assert "restore(path)" in remedy(plan(SAC, {"resume.replay_buffer": "beside-live", "storage": "compact"}), "MEM803")
