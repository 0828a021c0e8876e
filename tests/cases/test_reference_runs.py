"""The five reference runs: the figures that were read from their sources or measured, held to the byte where exact."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from rlmem.app.five_runs import (
    ALLOCATION_FIXED_MIB,
    ALLOCATION_TABLE,
    activations_per_sample,
    allocation_only,
    five_runs,
)
from rlmem.budget import sized_budget
from rlmem.capacity import largest
from rlmem.core.ledger import Ledger
from rlmem.core.plan import Budget, Plan
from rlmem.core.schedule import schedule
from rlmem.frameworks import predict, resolve
from rlmem.frameworks.sb3.networks import extractor, networks
from rlmem.frameworks.swarm import chains
from rlmem.model.constants import Constants
from rlmem.planner import Planner
from rlmem.report.five_runs import page
from rlmem.rules import rules
from rlmem.sources import load
from rlmem.units import MIB

ROOT = Path(__file__).parents[2]


def ledger(target: str, *sets: str) -> Ledger:
    return predict(resolve(load(target, sets)), Constants())


def held(target: str, component: str, *sets: str, phase: str = "collect", device: str = "ram") -> int:
    return ledger(target, *sets).only(component=component, phase=phase, device=device).nbytes


def plan(target: str, *sets: str, **limits: int) -> Plan:
    return Planner(Budget(name="test", **limits), Constants()).plan(load(target, sets))


def codes(made: Plan) -> set[str]:
    return {finding.code for finding in made.findings}


class TestPidog:
    def test_a_transition_takes_42628_bytes(self) -> None:
        assert held("pidog-sac", "replay") == 400_000 * 42_628 == 17_051_200_000

    def test_the_quoted_warning_is_a_300k_buffer_without_timeouts(self) -> None:
        arrays = held("pidog-sac", "replay", "buffer_size=300k")
        timeouts = held("pidog-sac", "replay.timeouts", "buffer_size=300k")
        assert f"{(arrays - timeouts) / 1e9:.2f}GB" == "12.79GB"

    def test_buffers_are_rounded_to_whole_rows_of_all_environments(self) -> None:
        assert held("pidog-sac", "replay", "buffer_size=400_003") == held("pidog-sac", "replay")

    def test_the_extractor_has_1_87_million_parameters_three_times_in_sac_and_four_times_in_td3(self) -> None:
        for preset, copies in (("pidog-sac", 3), ("pidog-td3", 4)):
            spec = resolve(load(preset))
            own = sum(chain.parameters for chain in extractor(spec).chains().values())
            assert round(own / 1e6, 2) == 1.87
            assert sum("extractor[image]" in network.chains for network in networks(spec)) == copies

    def test_the_vector_run_needs_no_image_array_and_a_third_of_a_gigabyte(self) -> None:
        assert held("pidog-sac-vector", "replay") == 1_000_000 * (2 * 124 + 32 + 12)

    def test_flattening_to_float32_costs_169_6_kilobytes_a_transition(self) -> None:
        flat = 'observation={"type":"box","shape":[21199],"dtype":"float32"}'
        assert held("pidog-sac-vector", "replay", flat) == 1_000_000 * 169_636

    def test_dict_observations_get_the_next_obs_finding_with_half_the_observations_as_saving(self) -> None:
        made = plan("pidog-sac", ram_bytes=30 * 10**9)
        finding = next(f for f in made.findings if f.code == "MEM101")
        assert finding.saves_bytes == pytest.approx(400_000 * 21_292, rel=0.05)
        assert "replay_buffer_class=CompactReplayBuffer" in (finding.remedy or "")

    def test_a_million_transitions_fit_in_24_gb_with_the_remedy_and_only_with_it(self) -> None:
        made = plan("pidog-sac", "buffer_size=1M", ram_bytes=24 * 10**9)
        assert made.verdict == "does-not-fit"
        remedies = {f.code: f.remedy or "" for f in made.findings}
        assert "as it is with CompactReplayBuffer: 20.6 GiB of 22.4 GiB" in remedies["MEM001"]
        assert "it then fits: 20.6 GiB" in remedies["MEM101"]
        assert plan("pidog-sac", "buffer_size=1M", "storage=compact", ram_bytes=24 * 10**9).verdict == "fits"

    def test_a_remedy_names_no_buffer_that_the_run_would_not_fill(self) -> None:
        remedies = [f.remedy or "" for f in plan("pidog-sac", ram_bytes=30 * 10**9).findings]
        assert any("CompactReplayBuffer" in remedy for remedy in remedies)
        assert not any("buffer_size up to" in remedy for remedy in remedies)

    def test_400k_fits_and_1m_does_not_in_30_gb(self) -> None:
        assert plan("pidog-sac", ram_bytes=30 * 10**9).verdict == "fits"
        assert plan("pidog-sac", "buffer_size=1M", ram_bytes=30 * 10**9).verdict == "does-not-fit"

    def test_a_zero_image_that_is_never_used_is_named_with_what_it_costs(self) -> None:
        made = plan("pidog-sac", "unused_keys=image")
        finding = next(f for f in made.findings if f.code == "MEM105")
        assert finding.saves_bytes == pytest.approx(400_000 * 2 * 21_168, rel=0.02)

    def test_loading_a_buffer_beside_a_live_one_adds_a_whole_buffer_and_into_a_new_model_does_not(self) -> None:
        beside = ledger("pidog-sac", "resume.replay_buffer=beside-live").only(phase="resume", component="resume")
        assert beside.nbytes == 17_051_200_000
        fresh = ledger("pidog-sac", "resume.replay_buffer=into-new")
        assert fresh.only(phase="resume").nbytes < fresh.only(phase="update").nbytes
        assert "MEM803" in codes(plan("pidog-sac", "resume.replay_buffer=beside-live"))


class TestPyboy:
    def test_rollout_observations_are_4_53_gb_and_18_1_gb_before_2_7_1(self) -> None:
        assert held("pyboy-ppo", "rollout.observations") == 16_384 * 276_480
        for version in ("2.3.2", "2.7.0"):
            old = held("pyboy-ppo", "rollout.observations", f"framework.version={version}")
            assert old == 4 * 16_384 * 276_480
        assert held("pyboy-ppo", "rollout.observations", "framework.version=2.7.1") == 16_384 * 276_480

    def test_the_update_starts_at_twice_the_observations_with_two_environments_and_once_with_one(self) -> None:
        assert held("pyboy-ppo", "rollout.flatten-copy", phase="update") == 16_384 * 276_480
        assert held("pyboy-ppo", "rollout.flatten-copy", "n_envs=1", phase="update") == 0

    def test_nature_cnn_has_7438503_parameters(self) -> None:
        assert sum(network.parameters for network in networks(resolve(load("pyboy-ppo")))) == 7_438_503

    def test_the_update_needs_at_least_the_5_1_gb_of_a_batch_and_its_two_float_copies_on_the_gpu(self) -> None:
        top = plan("pyboy-ppo").top("vram")
        assert top is not None
        assert top.low_bytes > 5.09e9
        tensors = held("pyboy-ppo", "batch", phase="update", device="vram")
        tensors += held("pyboy-ppo", "learner.conv-scratch", phase="update", device="vram")
        assert tensors == pytest.approx(5.5e9, rel=0.05)

    def test_80_updates_611_iterations_and_a_checkpoint_every_10(self) -> None:
        found = schedule(resolve(load("pyboy-ppo")))
        assert found is not None
        assert (found.updates, found.iterations, found.save_iterations) == (80, 611, 10)

    def test_the_findings_name_what_the_document_missed(self) -> None:
        made = plan("pyboy-ppo", "framework.version=2.3.2", ram_bytes=32 * 10**9, vram_bytes=16 * 10**9)
        assert {"MEM001", "MEM102", "MEM201", "MEM303", "MEM304", "MEM802", "MEM804", "MEM901"} <= codes(made)
        assert made.verdict == "does-not-fit"


class TestCrypto:
    def test_networks_gradients_and_adam_are_20_8_mb_and_there_are_no_targets(self) -> None:
        made = ledger("crypto-ppo").only(phase="update")
        parameters = made.only(component="learner.parameters").nbytes
        state = made.only(component="learner.optimizer").nbytes
        assert (2 * parameters + state) / 1e6 == pytest.approx(20.8, abs=0.05)
        assert made.only(component="learner.targets").entries == ()

    def test_a_transition_as_a_tuple_of_small_tensors_is_near_the_measured_1885_bytes(self) -> None:
        rollout = held("crypto-ppo", "rollout", phase="collect")
        alive = 2 * 1024  # the learner still holds the last rollout while the next is collected
        assert rollout / alive == pytest.approx(1_885, rel=0.02)

    def test_the_whole_process_needs_half_a_gigabyte_not_twenty(self) -> None:
        made = plan("crypto-ppo", ram_bytes=31 * 10**9)
        assert 0.35e9 < made.deciding.expected_bytes < 0.8e9

    def test_dead_settings_are_said_to_be_dead(self) -> None:
        made = plan("crypto-ppo", ram_bytes=31 * 10**9)
        named = {f.location for f in made.findings if f.code == "MEM901"}
        assert named == {f"settings.{name}" for name in ("worker_num", "thread_num", "max_memo", "empty_cache")}

    def test_53_threads_hold_megabytes_of_stacks_at_most(self) -> None:
        entry = ledger("crypto-ppo").only(phase="update", component="runtime.threads").entries[0]
        assert entry.amount.high < 20 * MIB


class TestSwarm:
    def test_the_network_has_112703_parameters_and_saves_66816_bytes_a_sample(self) -> None:
        spec = resolve(load("drone-swarm"))
        assert sum(chain.parameters for chain in chains(spec).values()) == 112_703
        assert activations_per_sample(spec) == 66_816

    def test_state_is_8496_bytes_an_agent_and_15696_with_the_redundant_history(self) -> None:
        assert held("drone-swarm", "workers.env-state", phase="build") == 1024 * 8_496
        assert held("drone-swarm-v0", "workers.env-state", phase="build") == 1024 * 15_696

    def test_the_update_peaks_at_about_13_mib_an_agent(self) -> None:
        peaks = [plan("drone-swarm", f"agents={n}").deciding for n in (1000, 2000)]
        assert {peak.phase for peak in peaks} == {"update"}
        slope = (peaks[1].expected_bytes - peaks[0].expected_bytes) / 1000
        assert slope / MIB == pytest.approx(13.2, rel=0.03)

    def test_16_gb_hold_1100_to_1200_agents(self) -> None:
        planner = Planner(sized_budget("16GB", "ram"), Constants())
        found = largest(load("drone-swarm"), "agents", planner.plan, expected=True)
        assert found.value is not None
        assert 1_100 <= found.value <= 1_200

    def test_the_allocation_only_benchmark_is_reproduced_to_half_a_percent(self) -> None:
        made = plan("drone-swarm")
        each = allocation_only(made) / 1024
        for agents, printed in ALLOCATION_TABLE:
            assert ALLOCATION_FIXED_MIB + agents * each / MIB == pytest.approx(printed, rel=0.005)

    def test_a_shorter_history_shrinks_observation_network_and_decoder_together(self) -> None:
        spec = resolve(load("drone-swarm", ("history=100",)))
        assert spec.observation_leaves[0].shape == (604,)
        assert chains(spec)["decoder"].out_shape == (6, 100)
        assert sum(chain.parameters for chain in chains(spec).values()) == 68_095

    def test_the_findings_name_each_cause_and_what_it_saves(self) -> None:
        made = plan("drone-swarm", ram_bytes=16 * 10**9)
        savings = {f.code: f.saves_bytes for f in made.findings}
        assert {"MEM103", "MEM305", "MEM306", "MEM401"} <= set(savings)
        assert savings["MEM401"] > savings["MEM306"] > savings["MEM305"] > 0


def test_the_page_on_the_five_runs_is_up_to_date() -> None:
    assert (ROOT / "docs" / "five-runs.md").read_text(encoding="utf-8") == page(five_runs())


def test_the_page_on_the_rules_names_every_rule() -> None:
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[(MEM\d+)\]", text, flags=re.M)) >= {rule.code for rule in rules()}


@pytest.mark.parametrize("name", ["model.md", "run-file.md"])
def test_the_generated_tables_in_hand_written_pages_are_up_to_date(name: str) -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    tables = importlib.import_module("tables")
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert "<!-- table:" in text
    assert tables.rewritten(text) == text


@pytest.mark.parametrize(
    "preset", ["drone-swarm", "pyboy-ppo", "crypto-ppo", "pidog-sac", "pidog-td3", "pidog-sac-vector"]
)
def test_every_saving_is_the_difference_of_two_plans(preset: str) -> None:
    made = plan(preset, ram_bytes=30 * 10**9, vram_bytes=16 * 10**9)
    for finding in made.findings:
        if finding.saves_bytes and finding.changes and finding.code not in ("MEM001", "MEM105"):
            changed = plan(
                preset, *(f"{k}={v}" for k, v in finding.changes), ram_bytes=30 * 10**9, vram_bytes=16 * 10**9
            )
            differences = [
                before.expected_bytes - after.expected_bytes
                for before, after in zip(made.tops, changed.tops, strict=True)
            ]
            assert finding.saves_bytes == max(differences, key=abs), finding.code
