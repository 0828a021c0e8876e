"""Plans as workloads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlmem.cluster.asking import process_counts, workload_of
from rlmem.cluster.nodes import parse_nodes
from rlmem.cluster.packing import pack
from rlmem.core.ledger import Entry, Ledger
from rlmem.core.plan import Budget, Plan
from rlmem.core.quantity import Quantity
from rlmem.core.spec import RunSpec
from rlmem.errors import SpecError
from rlmem.model.constants import Constants
from rlmem.planner import Planner
from rlmem.sources import load
from rlmem.units import MIB

PLANNER = Planner(Budget(name="none"))


def planned(target: str, *sets: str) -> Plan:
    return PLANNER.plan(load(target, sets))


def rllib(algorithm: str = "ppo", **values: Any) -> Plan:
    fields = {
        "name": "run",
        "framework.name": "rllib",
        "algorithm": algorithm,
        "observation": {"type": "box", "shape": [84, 84, 4], "dtype": "uint8"},
        "action": {"type": "discrete", "n": 6},
        **{name.replace("__", "."): value for name, value in values.items()},
    }
    return PLANNER.plan(RunSpec().having(fields, "test"))


def test_a_run_in_one_place_is_one_bundle_with_its_upper_bound() -> None:
    plan = planned("crypto-ppo")
    workload = workload_of(plan, on_ray=False)
    (need,) = workload.needs
    top = plan.top("ram")
    assert top is not None
    assert (need.role, need.count, need.cpus) == ("trial", 1, 1.0)
    assert (need.ram_bytes, need.expected_bytes) == (top.high_bytes, top.expected_bytes)
    assert (workload.node_bytes, workload.store_bytes) == (0, 0)


def test_on_ray_a_node_pays_for_rays_own_processes_and_a_trial_for_its_worker() -> None:
    plan = planned("crypto-ppo")
    plain, on_ray = workload_of(plan, on_ray=False), workload_of(plan)
    constants = Constants()
    assert on_ray.node_bytes == sum(constants.quantity(f"ray.{name}").high for name in ("daemons", "binaries"))
    worker = constants.quantity("ray.idle-worker").high
    assert on_ray.needs[0].ram_bytes == plain.needs[0].ram_bytes + worker


def test_environments_in_processes_take_a_core_each() -> None:
    plan = planned("pidog-sac", "vec_env=subproc", "n_envs=6")
    assert process_counts(plan.spec) == {"main": 1, "workers": 6}
    assert workload_of(plan).needs[0].cpus == 7


def test_a_gpu_counts_with_what_torch_keeps() -> None:
    plan = planned("pyboy-ppo")
    (need,) = workload_of(plan).needs
    top = plan.top("vram")
    assert top is not None
    assert need.vram_bytes == top.high_bytes
    assert need.cache_bytes == max(
        e.amount.high for e in plan.ledger.entries if e.component == "runtime.allocator-cache"
    )


def test_rllib_has_a_bundle_for_every_actor_the_driver_first() -> None:
    plan = rllib(rllib__num_env_runners=8, rllib__num_learners=2, rllib__eval_env_runners=3)
    workload = workload_of(plan)
    assert [(need.role, need.count) for need in workload.needs] == [
        ("driver", 1),
        ("env-runner", 8),
        ("eval-env-runner", 3),
        ("learner", 2),
    ]
    assert all(need.ram_bytes >= (need.expected_bytes or 0) > 0 for need in workload.needs)


def test_bundles_node_and_store_hold_all_that_the_ledger_has() -> None:
    """Per role the largest phase, so together no less than any phase of the whole."""
    plan = rllib(rllib__num_env_runners=8, rllib__num_learners=2)
    workload = workload_of(plan)
    top = plan.top("ram")
    assert top is not None
    assert workload.ram_bytes + workload.node_bytes >= top.high_bytes
    assert workload.ram_bytes + workload.node_bytes < 1.1 * top.high_bytes


def test_pages_that_processes_share_are_the_nodes() -> None:
    plan = rllib()
    shared = max(e.amount.high for e in plan.ledger.entries if e.component == "runtime.shared")
    assert workload_of(plan).node_bytes >= shared > 0


def test_aggregators_live_in_the_bundles_of_learners() -> None:
    without = workload_of(rllib("impala", rllib__num_learners=2))
    with_ = workload_of(rllib("impala", rllib__num_learners=2, rllib__num_aggregators=4))
    assert [need.role for need in with_.needs] == [need.role for need in without.needs]
    assert with_.needs[-1].role == "learner"
    assert with_.needs[-1].cpus == without.needs[-1].cpus + 2
    assert with_.needs[-1].ram_bytes > without.needs[-1].ram_bytes


def test_aggregators_of_a_local_learner_have_bundles_of_their_own() -> None:
    workload = workload_of(rllib("impala", rllib__num_learners=0, rllib__num_aggregators=2))
    assert [(need.role, need.count) for need in workload.needs][-1] == ("aggregator", 2)


@pytest.mark.parametrize("learners", [1, 2])
def test_learners_on_gpus_take_no_core_and_several_of_them_a_gpu_each(learners: int) -> None:
    workload = workload_of(rllib(device="cuda", rllib__num_learners=learners))
    learner = workload.needs[-1]
    assert (learner.role, learner.cpus, learner.whole_gpu) == ("learner", 0.0, learners > 1)
    assert learner.vram_bytes > 0
    assert all(need.vram_bytes == 0 for need in workload.needs[:-1])


def test_cores_and_gpus_are_those_that_the_configuration_asks_for() -> None:
    workload = workload_of(
        rllib(
            rllib__num_env_runners=4,
            rllib__num_learners=1,
            rllib__eval_env_runners=1,
            rllib__driver_cpus=2,
            rllib__runner_cpus=0.5,
            rllib__runner_gpus=0.1,
            rllib__learner_cpus=3,
            rllib__learner_gpus=1,
            device="cuda",
        )
    )
    assert [(need.cpus, need.asked_gpu, need.least_gpu) for need in workload.needs] == [
        (2.0, 0.0, 0.0),
        (0.5, 0.1, 0.1),
        (0.5, 0.1, 0.1),
        (3.0, 1.0, 0.0),  # what it needs of a GPU is for its bytes to say
    ]


def test_a_driver_that_learns_asks_for_what_its_learner_would() -> None:
    (driver, *_) = workload_of(rllib(rllib__num_learners=0, rllib__learner_cpus=4, rllib__learner_gpus=0.5)).needs
    assert (driver.role, driver.cpus, driver.asked_gpu) == ("driver", 4.0, 0.5)


def test_custom_resources_and_strategy_are_those_of_the_configuration() -> None:
    workload = workload_of(
        rllib(
            "impala",
            rllib__num_env_runners=2,
            rllib__num_learners=1,
            rllib__num_aggregators=1,
            rllib__eval_env_runners=1,
            rllib__driver_resources=("head=0.5",),
            rllib__runner_resources=("sim=1", "licence=2"),
            rllib__learner_resources=("fast=1",),
            rllib__placement_strategy="strict_spread",
        )
    )
    assert workload.strategy == "STRICT_SPREAD"
    runner = (("sim", 1.0), ("licence", 2.0))
    assert [need.resources for need in workload.needs] == [(("head", 0.5),), runner, runner, (("fast", 1.0),)]
    plain = workload_of(rllib())
    assert (plain.strategy, {need.resources for need in plain.needs}) == ("PACK", {()})
    local = workload_of(rllib(rllib__num_learners=0, rllib__learner_resources=("fast=1",)))
    assert {need.resources for need in local.needs} == {()}  # nor does RLlib ask for them then


@pytest.mark.parametrize("text", ["sim", "=1", "sim=", "sim=much", "sim=-1", "sim=0", "sim=nan", "sim=inf", "CPU=1"])
def test_a_custom_resource_is_a_name_and_an_amount(text: str) -> None:
    with pytest.raises(SpecError, match=r"rllib\.runner_resources: .*(write it as name=amount|no custom resource)"):
        workload_of(rllib(rllib__runner_resources=(text,)))


def holding(plan: Plan, process: str, nbytes: int) -> Plan:
    """The plan with so much on GPUs for all processes of a name, and nothing else there for them."""
    kept = [entry for entry in plan.ledger.entries if (entry.device, entry.process) != ("vram", process)]
    amount = Quantity.of(nbytes, "held", "the test")
    more = Entry(component="x", device="vram", process=process, phase="update", amount=amount, basis="exact")
    return replace(plan, ledger=Ledger((*kept, more)))


@pytest.mark.parametrize(("asked", "each", "fits"), [(0.01, 500, 29), (0.1, 500, 10), (0.01, 10, 100), (0.5, 500, 2)])
def test_runners_on_a_gpu_take_what_they_hold_or_what_they_ask_for(asked: float, each: int, fits: int) -> None:
    """A T4 has 15,360 MiB: of runners with 550 MiB there are 27; a hundredth of it is not enough because it is asked for."""
    plan = rllib(rllib__num_env_runners=90, rllib__runner_gpus=asked)
    workload = workload_of(holding(plan, "env-runner", 90 * each * MIB))
    runner = next(need for need in workload.needs if need.role == "env-runner")
    assert (runner.vram_bytes, runner.asked_gpu, runner.least_gpu) == (each * MIB, asked, asked)
    (node,) = parse_nodes("(512GB,1xT4)")
    packing = pack(workload, (node,))
    share = max(asked, 1.1 * each * MIB / (node.vram_bytes or 0))
    assert packing.trials == (1 if 1 / share >= 90 else 0)
    placed = sum(use.nodes * dict(use.bundles).get("env-runner", 0) for use in packing.uses)
    assert placed == min(90, int(1 / share)) <= fits


@pytest.mark.parametrize(("asked", "mib"), [(0.01, 8000), (1.0, 100)])
def test_a_learner_takes_what_its_bytes_need_whatever_is_asked_for(asked: float, mib: int) -> None:
    plan = rllib(rllib__num_learners=1, rllib__learner_gpus=asked, rllib__num_env_runners=1)
    learner = workload_of(holding(plan, "learner", mib * MIB)).needs[-1]
    assert (learner.role, learner.vram_bytes, learner.asked_gpu, learner.least_gpu) == (
        "learner",
        mib * MIB,
        asked,
        0.0,
    )
