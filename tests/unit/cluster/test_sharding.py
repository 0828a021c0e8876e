"""One run shared out over learners."""

from __future__ import annotations

import pytest

from rlmem.cluster.lacking import lacks
from rlmem.cluster.nodes import parse_nodes
from rlmem.cluster.packing import pack
from rlmem.cluster.sharding import Sharding, shard
from rlmem.core.plan import Budget
from rlmem.core.spec import RunSpec
from rlmem.core.subject import Subject
from rlmem.errors import SpecError, UsageError
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm
from rlmem.sources import load


def planned(spec: RunSpec) -> Subject:
    return ClosedForm().subject(spec, Budget(name="none"))


def swarm(nodes: str, *sets: str) -> Sharding:
    return shard(planned(load("drone-swarm", ("agents=10M", "storage=stream", *sets))), "agents", parse_nodes(nodes))


@pytest.mark.parametrize("nodes", ["16x16GB", "3x64GB", "200x(8GB,2cpu)"])
def test_ten_million_agents_take_the_smallest_number_of_learners_that_fits(nodes: str) -> None:
    found = swarm(nodes)
    assert found.packing.trials == 1
    assert found.shards * found.each >= found.whole == 10_000_000
    # With one learner fewer, each shard is larger than what any node holds beside what it pays once.
    fewer = planned(load("drone-swarm", ("storage=stream", f"agents={-(-found.whole // (found.shards - 1))}"))).plan
    top, largest = fewer.top("ram"), max(group.ram_bytes for group in found.packing.groups)
    assert top is not None
    use = found.packing.uses[0]
    once = use.node_bytes + (use.store_bytes or 0)
    assert 1.1 * (top.high_bytes + Constants().quantity("ray.idle-worker").high) + once > 0.95 * largest


@pytest.mark.parametrize(
    ("nodes", "agents"), [("1x12GB + 26x4GB", "4M"), ("2x20GB + 8x4GB", "4M"), ("4x8GB + 6x4GB", "3M")]
)
def test_on_nodes_of_two_kinds_a_number_between_two_doublings_is_found(nodes: str, agents: str) -> None:
    found = swarm(nodes, f"agents={agents}")
    assert found.packing.trials == 1


def test_the_answer_is_right_by_hand() -> None:
    """8.2 kB an agent and half a gigabyte besides: 10M agents are 83 GiB, and 16 GB hold one and a quarter million with margins."""
    found = swarm("16x16GB")
    assert (found.shards, found.each) == (8, 1_250_000)
    top = found.plan.top("ram")
    assert top is not None
    assert 9e9 < top.high_bytes < 12.5e9


def test_on_gpus_every_learner_has_one_of_its_own() -> None:
    found = swarm("2x(512GB,8xh100-80gb)", "device=cuda")
    assert found.packing.trials == 1
    (use,) = found.packing.uses
    assert sorted(use.gpus, reverse=True)[: found.shards] == [1.0] * found.shards


def test_one_learner_holds_no_copy_of_its_gradients() -> None:
    alone = swarm("(512GB)")
    assert alone.shards == 1
    assert pack(alone.packing.workload, parse_nodes("512GB")).trials >= 1
    top = alone.plan.top("ram")
    assert top is not None
    assert alone.packing.workload.needs[0].expected_bytes is not None
    two = swarm("2x64GB")
    assert two.shards == 2
    gradients = max(e.amount.high for e in two.plan.ledger.entries if e.component == "learner.gradients")
    assert gradients > 0


def test_too_few_nodes_say_how_many_would_do() -> None:
    found = swarm("2x8GB")
    assert found.packing.trials == 0
    (lack,) = lacks(found.packing)
    assert not lack.never
    assert lack.nodes == found.shards


def test_a_shard_that_never_fits_is_told_from_too_few_nodes() -> None:
    found = swarm("100x300MB")
    (lack,) = lacks(found.packing)
    assert (lack.never, lack.resource) == (True, "ram")


def test_only_counts_are_divided() -> None:
    with pytest.raises(UsageError, match="only counts"):
        shard(planned(load("drone-swarm")), "device", parse_nodes("16GB"))
    with pytest.raises(SpecError, match="unknown key"):
        shard(planned(load("drone-swarm")), "agnts", parse_nodes("16GB"))


def test_rllib_has_learners_of_its_own() -> None:
    spec = RunSpec().having(
        {
            "framework.name": "rllib",
            "algorithm": "ppo",
            "observation": {"type": "box", "shape": [4], "dtype": "float32"},
            "action": {"type": "discrete", "n": 2},
        },
        "test",
    )
    with pytest.raises(UsageError, match=r"rllib\.num_learners"):
        shard(planned(spec), "n_envs", parse_nodes("16GB"))
