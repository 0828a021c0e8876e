"""The smallest change: the reference runs under budgets they do not fit, made to fit in closed form."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from rlmem.budget import make_budget
from rlmem.planner import ClosedForm, Planner
from rlmem.remedies import KNOBS, REMEDIES
from rlmem.remedies.base import KINDS, Constraints, Fit, changes_of, over, slowdown_of
from rlmem.remedies.machine import would_do
from rlmem.remedies.search import Search
from rlmem.sources import load

CODED = 'coded_bytes={"image": [3000, 4000, 6000], "vector": [100, 124, 124]}'


@cache
def fit(name: str, ram: str, *sets: str, vram: str = "80GB", **constraints: Any) -> Fit:
    subject = ClosedForm().subject(load(name, sets), make_budget(ram=ram, vram=vram))
    return Search(subject, Constraints(**constraints)).fit()


def names(found: Fit) -> list[str]:
    return [step.remedy.name for step in found.steps]


def test_the_table_names_every_remedy_once_and_says_its_class_and_its_price() -> None:
    assert len({remedy.name for remedy in REMEDIES}) == len(REMEDIES)
    for remedy in REMEDIES:
        assert remedy.kind in KINDS
        assert remedy.title
        assert remedy.costs
        assert remedy.basis.split(":")[0] in ("measured", "estimate", "unknown")
        assert (remedy.slowdown is None) == remedy.basis.startswith("unknown")
    assert [KINDS.index(remedy.kind) for remedy in REMEDIES] == sorted(KINDS.index(r.kind) for r in REMEDIES)


@pytest.mark.parametrize(
    ("name", "ram", "vram", "steps"),
    [
        ("pidog-sac", "12GB", "80GB", ["compact-store"]),
        ("pidog-td3", "12GB", "80GB", ["compact-store"]),
        ("pidog-sac", "8GB", "80GB", ["compact-store", "spill"]),
        ("pidog-td3", "2GB", "80GB", ["compact-store", "spill"]),
        ("pyboy-ppo", "8GB", "16GB", ["compact-store"]),
        ("pyboy-ppo", "8GB", "6GB", ["compact-store", "bfloat16", "batch-size"]),
        ("drone-swarm", "8GB", "80GB", ["micro-batches"]),
        ("drone-swarm", "4GB", "80GB", ["stream-store", "micro-batches"]),
        ("drone-swarm", "2GB", "80GB", ["stream-store", "micro-batches"]),
        ("crypto-ppo", "600MB", "80GB", ["batch-size"]),
    ],
)
def test_a_reference_run_that_does_not_fit_is_made_to_fit(name: str, ram: str, vram: str, steps: list[str]) -> None:
    found = fit(name, ram, vram=vram)
    assert over(found.start.plan) > 0
    assert (found.status, names(found)) == ("fits", steps)
    assert all(top.limit_bytes is None or top.high_bytes <= top.limit_bytes for top in found.end.plan.tops)


@pytest.mark.parametrize(("name", "ram"), [("pidog-sac", "8GB"), ("pyboy-ppo", "8GB"), ("drone-swarm", "2GB")])
def test_what_the_steps_save_adds_up_to_the_difference_of_two_plans(name: str, ram: str) -> None:
    found = fit(name, ram)
    before, after = found.start.plan.top("ram"), found.end.plan.top("ram")
    assert before is not None
    assert after is not None
    assert sum(step.saves["ram"] for step in found.steps) == before.expected_bytes - after.expected_bytes
    planner = Planner(make_budget(ram=ram, vram="80GB"))
    again = planner.plan(load(name).having(changes_of(found.steps), "again")).top("ram")
    assert again is not None
    assert again.expected_bytes == after.expected_bytes


def test_no_step_can_be_left_out_of_an_answer() -> None:
    found = fit("drone-swarm", "4GB")
    for step in found.steps:
        values = {p: v for s in found.steps if s is not step for p, v in s.change.values.items()}
        plan = Planner(make_budget(ram="4GB", vram="80GB")).plan(load("drone-swarm").having(values, ""))
        assert over(plan) > 0, step.remedy.name


@pytest.mark.parametrize(
    ("ram", "steps"),
    [
        ("16GB", ["stream-store", "micro-batches"]),
        ("12GB", ["stream-store", "half-precision-stream", "micro-batches"]),
    ],
)
def test_a_million_drones_fit_once_their_stream_is_kept_once(ram: str, steps: list[str]) -> None:
    found = fit("drone-swarm", ram, "agents=1M")
    assert (found.status, names(found)) == ("fits", steps)
    assert changes_of(found.steps)["storage"] == "stream"
    assert all(step.remedy.kind != "learning" for step in found.steps)


def test_a_stream_by_itself_changes_neither_numbers_nor_batches() -> None:
    found = fit("drone-swarm", "9GB", keep=frozenset({"rollout.keeps_graph", "rollout.store"}), kinds=("lossless",))
    change = found.steps[0].change.values
    assert change == {
        "storage": "stream",
        "batch_size": 102_400,
        "rollout.dtype": "float32",
        "network.encoding": "window",
    }
    assert "WindowRollout" in found.steps[0].change.how


def test_a_run_that_fits_is_left_alone() -> None:
    found = fit("pidog-sac", "30GB")
    assert (found.status, found.steps, found.left_over) == ("already", (), {})


def test_a_codec_is_a_step_only_where_its_saving_is_known() -> None:
    assert "codec" not in names(fit("pidog-sac", "8GB"))
    assert names(fit("pidog-sac", "8GB", CODED)) == ["compact-store", "codec"]  # its slowdown is known, spill's is not


@pytest.mark.long
def test_what_is_kept_is_not_changed() -> None:
    found = fit("pidog-sac", "8GB", keep=frozenset({"spill_budget", "buffer_size"}))
    assert found.status == "no"
    found = fit("pidog-sac", "8GB", keep=frozenset({"spill_budget"}))
    assert names(found) == ["compact-store", "buffer-size"]
    found = fit("pidog-sac", "8GB", keep=frozenset({"storage"}))
    assert names(found) == ["buffer-size"]


def test_lossless_means_lossless() -> None:
    found = fit("pyboy-ppo", "8GB", vram="6GB", kinds=("lossless",))
    assert found.status == "no"
    assert found.left_over.keys() == {"vram"}
    assert all(step.remedy.kind == "lossless" for step in found.steps)


@pytest.mark.long
def test_a_slowdown_that_nobody_knows_is_not_under_any_limit() -> None:
    found = fit("pidog-sac", "8GB", max_slowdown=1.1)
    assert names(found) == ["compact-store", "buffer-size"]
    assert slowdown_of(found.steps) == 1.0
    coded = fit("pidog-sac", "8GB", CODED, max_slowdown=1.1)
    assert "codec" not in names(coded)


def test_learning_changes_as_little_as_possible() -> None:
    """Milder steps that let the buffer stay larger are kept, and the value found is the largest of two figures."""
    found = fit("pidog-sac", "8GB", keep=frozenset({"spill_budget"}))
    size = changes_of(found.steps)["buffer_size"]
    alone = fit("pidog-sac", "8GB", kinds=("learning",)).end.asked.get("buffer_size")
    assert size > 1.8 * alone
    planner = Planner(make_budget(ram="8GB"))
    larger = load("pidog-sac").having({"storage": "compact", "buffer_size": size + 10_000}, "")
    assert over(planner.plan(larger)) > 0


def test_a_knob_for_each_device_where_one_is_not_enough() -> None:
    sets = ("device=cuda", "batch_size=4096")
    found = fit("pidog-sac", "8GB", *sets, vram="3GB", kinds=("learning",))
    assert found.status == "fits"
    assert set(changes_of(found.steps)) == {"buffer_size", "batch_size"}


def test_rollouts_that_were_whole_minibatches_stay_so() -> None:
    found = fit("pyboy-ppo", "8GB", kinds=("learning",), keep=frozenset({"n_envs", "frame_stack", "batch_size"}))
    steps = changes_of(found.steps)["n_steps"]
    assert steps * 2 % 2048 == 0


def test_only_the_expectation_fits_and_the_answer_says_so() -> None:
    found = fit("crypto-ppo", "500MB")
    assert found.status == "expected"
    assert found.left_over["ram"] > 0
    assert over(found.end.plan, expected=True) <= 0


@pytest.mark.long
def test_where_nothing_fits_the_closest_and_a_machine_are_named() -> None:
    found = fit("pidog-sac", "100MB")
    assert found.status == "no"
    assert changes_of(found.steps)["storage"] == "compact"
    assert 0 < found.left_over["ram"] < over(found.start.plan)
    assert found.mild
    as_it_is, milder = would_do(found.start.plan), would_do(found.mild[-1].after.plan)
    assert as_it_is is not None
    assert milder is not None
    assert (milder.ram_bytes or 0) < (as_it_is.ram_bytes or 0)
    assert (as_it_is.ram_bytes or 0) * 0.9 >= max(peak.high_bytes for peak in found.start.plan.peaks)


def test_a_run_on_a_gpu_needs_a_machine_with_one() -> None:
    machine = would_do(fit("pyboy-ppo", "1GB", vram="1GB").start.plan)
    assert machine is not None
    assert machine.gpus > 0


def test_float32_is_lossless_only_where_the_network_sees_the_same_numbers() -> None:
    wide = 'observation={"type": "box", "shape": [2000], "dtype": "float64"}'
    plain = fit("pidog-sac-vector", "20GB", wide, keep=frozenset({"storage"}))
    assert [(step.remedy.name, step.remedy.kind) for step in plain.steps] == [("float32-observations", "lossless")]
    found = fit("pidog-sac-vector", "20GB", wide, "vec_normalize=true", keep=frozenset({"storage"}))
    assert "float32-observations" not in names(found)
    kinds = {item.step.remedy.name: item.step.remedy.kind for item in found.alone}
    assert kinds["rounded-observations"] == "learning"


def test_a_step_the_framework_would_refuse_is_not_offered() -> None:
    found = fit("pidog-sac", "8GB", "algorithm=td3", kinds=("lossless",))
    refused = [item for item in found.alone if "optimize_memory_usage" in item.step.change.values]
    assert refused == []


def test_each_knob_is_a_count_that_runs_have() -> None:
    assert set(KNOBS.values()) >= {"buffer_size", "n_steps", "batch_size", "n_envs", "agents", "history", "frame_stack"}


def test_steps_that_can_be_written_come_before_those_that_cannot() -> None:
    form, budget = ClosedForm(), make_budget(ram="8GB", vram="80GB")

    def found(*sets: str, by_hand: str) -> list[str]:
        search = Search(
            form.subject(load("pidog-sac", sets), budget),
            writable=lambda steps: all(step.remedy.name != by_hand for step in steps),
        )
        return names(search.fit())

    assert found(CODED, by_hand="nothing") == ["compact-store", "codec"]
    assert found(CODED, by_hand="codec") == ["compact-store", "spill"]
    assert found(by_hand="spill") == ["compact-store", "spill"]  # where nothing else does it
