"""What a plan asks for is what Ray accepts: placement groups start, actors get their options, and as many fit as we say."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray.util.placement_group import PlacementGroup, placement_group_table, remove_placement_group

from rlmem.cluster.asking import workload_of
from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import pack
from rlmem.core.machines import find_machine
from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.errors import AnalysisError, UsageError
from rlmem.planner import Planner
from rlmem.ray import placement_group_for, resources_for
from rlmem.ray.placement import nodes_of
from rlmem.sources import load
from rlmem.units import GIB, MIB

#: Long enough for workers to start on a busy machine; nothing is decided by it but that a test ends.
PATIENCE_S = 120


@pytest.fixture(scope="module")
def nodes(cluster: Any) -> Iterator[Any]:
    """Beside the head three nodes: two alike, and one with a GPU that is called a T4."""
    for gpus in (0, 0, 1):
        kind = {"resources": {"accelerator_type:T4": 1}} if gpus else {}
        cluster.add_node(num_cpus=4, num_gpus=gpus, memory=3 * GIB, object_store_memory=200 * MIB, **kind)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    yield cluster


def ready(group: PlacementGroup) -> dict[str, Any]:
    """The table of a placement group that has started."""
    ray.get(group.ready(), timeout=PATIENCE_S)
    found: dict[str, Any] = placement_group_table(group)
    return found


def rllib(**values: Any) -> RunSpec:
    fields = {
        "name": "atari",
        "framework.name": "rllib",
        "algorithm": "ppo",
        "observation": {"type": "box", "shape": [8], "dtype": "float32"},
        "action": {"type": "discrete", "n": 6},
        "rllib.num_env_runners": 6,
        "rllib.num_learners": 1,
        "device": "cuda",
    }
    return RunSpec().having({**fields, **values}, "test")


def planned(spec: RunSpec) -> Plan:
    return Planner(Budget(name="none")).plan(spec)


def test_a_placement_group_with_the_bundles_of_a_plan_starts(nodes: Any) -> None:
    factory = placement_group_for(rllib(), nodes_of(ray))
    assert factory.strategy == "PACK"
    assert len(factory.bundles) == 1 + 6 + 1
    group = factory.to_placement_group()
    try:
        table = ready(group)
        assert table["state"] == "CREATED"
        learner = list(table["bundles"].values())[-1]
        t4 = find_machine("t4").vram_bytes or 0
        need = workload_of(planned(rllib())).needs[-1]
        assert need.role == "learner"
        least, most = need.vram_bytes / t4, (1.2 * need.vram_bytes + need.cache_bytes) / t4
        assert least < learner["GPU"] < min(most, 1)
        assert all(bundle["memory"] > 100 * MIB for bundle in table["bundles"].values())
        with_gpu = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
        assert list(table["bundles_to_node_id"].values())[-1] in with_gpu
    finally:
        remove_placement_group(group)


def test_an_actor_gets_the_options_of_its_role(nodes: Any) -> None:
    @ray.remote
    class Actor:
        def resources(self) -> dict[str, float]:
            return dict(ray.get_runtime_context().get_assigned_resources())

    options = resources_for(rllib(), role="learner", nodes=nodes_of(ray))
    assert set(options) == {"num_cpus", "num_gpus", "memory"}
    actor = Actor.options(**options).remote()
    try:
        assigned = ray.get(actor.resources.remote(), timeout=PATIENCE_S)
        assert assigned["memory"] == options["memory"]
        assert assigned["GPU"] == pytest.approx(options["num_gpus"])
        assert assigned.get("CPU", 0) == options["num_cpus"] == 0
    finally:
        ray.kill(actor)
    assert resources_for(rllib())["num_cpus"] == 1  # the driver's


def rooms(memory: float) -> list[dict[str, float]]:
    """What is left of nodes that could take one more trial."""
    left = ray._private.state.available_resources_per_node().values()
    return [free for free in left if free.get("memory", 0) >= memory and free.get("CPU", 0) >= 1]


def test_ray_admits_as_many_trials_as_we_say_and_has_no_room_for_one_more(nodes: Any) -> None:
    workload = workload_of(planned(load("crypto-ppo")))
    packing = pack(workload, nodes_of(ray))
    each = placement_group_for("crypto-ppo").bundles[0]
    by_memory, heads_cores = int(3 * GIB // each["memory"]), 2
    assert packing.trials == 3 * by_memory + heads_cores > 3
    groups = [placement_group_for("crypto-ppo").to_placement_group() for _ in range(packing.trials)]
    try:
        for group in groups:
            assert ready(group)["state"] == "CREATED"
        end = time.monotonic() + PATIENCE_S
        while rooms(each["memory"]) and time.monotonic() < end:  # nodes tell what is left a moment after it was taken
            time.sleep(0.2)
        assert not rooms(each["memory"])
    finally:
        for group in groups:
            remove_placement_group(group)


def test_the_nodes_of_a_cluster_are_as_they_were_started(nodes: Any) -> None:
    groups = {(group.count, group.gpus): group for group in nodes_of(ray)}
    assert set(groups) == {(1, 0), (2, 0), (1, 1)}
    alike, gpu = groups[2, 0], groups[1, 1]
    assert (alike.cpus, alike.memory_bytes, alike.store_bytes) == (4, 3 * GIB, 200 * MIB)
    assert (gpu.gpu, gpu.vram_bytes) == ("T4", find_machine("t4").vram_bytes)
    assert groups[1, 0].cpus == 2
    # Asked of a worker there. All four are on this machine, and share what it has, or what a cgroup leaves of it.
    assert 0 < alike.ram_bytes <= psutil.virtual_memory().total / 4
    assert sum(group.count * group.ram_bytes for group in groups.values()) <= psutil.virtual_memory().total
    assert {group.ram_bytes for group in nodes_of(ray, ask=False) if group.gpus} == {3 * GIB + 200 * MIB}


CONFIGS = """
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig

ppo = (
    PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=3, num_cpus_per_env_runner=2)
    .learners(num_learners=2, num_gpus_per_learner=1).evaluation(evaluation_interval=1, evaluation_num_env_runners=2)
)
impala = (
    IMPALAConfig().environment("CartPole-v1").env_runners(num_env_runners=4)
    .learners(num_learners=2, num_aggregator_actors_per_learner=2)
)
appo = (
    APPOConfig().environment("CartPole-v1").env_runners(num_env_runners=3, num_gpus_per_env_runner=0.1)
    .learners(num_learners=1, num_gpus_per_learner=0.5, num_aggregator_actors_per_learner=1)
    .resources(num_cpus_for_main_process=2)
)
local = (
    IMPALAConfig().environment("CartPole-v1").env_runners(num_env_runners=1)
    .learners(num_learners=0, num_aggregator_actors_per_learner=2)
)
dqn = DQNConfig().environment("CartPole-v1").env_runners(num_env_runners=2).learners(num_learners=0, num_gpus_per_learner=1)
# An evaluation that never happens has EnvRunners too.
sac = SACConfig().environment("Pendulum-v1").env_runners(num_env_runners=0).evaluation(evaluation_num_env_runners=3)
named = (
    PPOConfig().environment("CartPole-v1")
    .env_runners(num_env_runners=2, custom_resources_per_env_runner={"sim": 1, "licence": 0.5})
    .learners(num_learners=1, custom_resources_per_learner={"fast": 1})
    .evaluation(evaluation_interval=1, evaluation_num_env_runners=1)
    .resources(custom_resources_for_main_process={"head": 1}, placement_strategy="STRICT_SPREAD")
)
local_named = (
    PPOConfig().environment("CartPole-v1")
    .env_runners(num_env_runners=1, custom_resources_per_env_runner={"sim": 1})
    .learners(num_learners=0, custom_resources_per_learner={"fast": 1})
    .resources(custom_resources_for_main_process={"head": 1}, placement_strategy="SPREAD")
)
"""


LONG = [
    pytest.param(name, marks=pytest.mark.long)
    for name in ("ppo", "impala", "local", "dqn", "sac", "local_named", "appo")
]


@pytest.mark.parametrize("name", ["named", *LONG])
def test_bundles_are_those_of_rllibs_own_request_with_memory(tmp_path: Path, name: str) -> None:
    file = tmp_path / "configs.py"
    file.write_text(CONFIGS)
    known: dict[str, Any] = {}
    exec(CONFIGS, known)
    own = known[name].algo_class.default_resource_request(known[name])
    ours = placement_group_for(f"rllib:{file}:{name}")
    assert ours.strategy == own.strategy
    assert [{**bundle, "memory": None} for bundle in ours.bundles] == [
        {**bundle, "memory": None} for bundle in own.bundles
    ]
    assert all(bundle["memory"] > 200 * MIB for bundle in ours.bundles)


@pytest.mark.long
def test_rllib_trains_inside_the_placement_group_of_its_plan(nodes: Any, tmp_path: Path) -> None:
    """Every actor that RLlib starts finds its place in our bundles: with one too few it would wait for ever."""
    from ray import tune
    from ray.rllib.algorithms.ppo import PPO, PPOConfig

    spec = rllib(
        device="cpu", observation={"type": "box", "shape": [4], "dtype": "float32"}, **{"rllib.num_env_runners": 2}
    )
    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=2)
        .learners(num_learners=1)
        .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=1)
    )
    factory = placement_group_for(spec, nodes_of(ray))
    default = PPO.default_resource_request(config)
    assert [bundle["CPU"] for bundle in factory.bundles] == [bundle["CPU"] for bundle in default.bundles]
    tuner = tune.Tuner(
        tune.with_resources(PPO, factory),
        param_space=config,
        run_config=tune.RunConfig(stop={"training_iteration": 1}, storage_path=str(tmp_path), verbose=0),
    )
    (result,) = tuner.fit()
    assert result.error is None
    assert result.metrics["training_iteration"] == 1


def refusal(spec: Any) -> str:
    with pytest.raises(AnalysisError) as caught:
        placement_group_for(spec, nodes_of(ray))
    return str(caught.value)


def test_custom_resources_are_options_of_an_actor_and_bundles_start_only_where_they_are(nodes: Any) -> None:
    spec = rllib(
        device="cpu",
        **{
            "rllib.num_env_runners": 2,
            "rllib.num_learners": 0,
            "rllib.runner_resources": ("sim=1",),
            "rllib.placement_strategy": "strict_spread",
        },
    )
    assert resources_for(spec, role="env-runner")["resources"] == {"sim": 1}
    assert "resources" not in resources_for(spec)
    with pytest.raises(AnalysisError, match="env-runner needs 1 of sim, the nearest node has 0"):
        placement_group_for(spec, nodes_of(ray))
    added = [nodes.add_node(num_cpus=1, memory=2 * GIB, resources={"sim": 1})]
    try:
        assert [dict(group.resources or ()) for group in nodes_of(ray) if group.cpus == 1] == [{"sim": 1}]
        # A busy node answers late how much RAM it has; until then it has the 2 GiB that it was started with, too few for one.
        deadline = time.monotonic() + 60
        while "1 × env-runner find no place, for want of nodes that differ" not in (problem := refusal(spec)):
            assert time.monotonic() < deadline, problem
        added.append(nodes.add_node(num_cpus=1, memory=2 * GIB, resources={"sim": 1}))
        factory = placement_group_for(spec, nodes_of(ray))
        assert (factory.strategy, [bundle.get("sim") for bundle in factory.bundles]) == ("STRICT_SPREAD", [None, 1, 1])
        group = factory.to_placement_group()
        try:
            places = list(ready(group)["bundles_to_node_id"].values())
            assert len(set(places)) == 3
            with_sim = {node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("sim")}
            assert set(places[1:]) == with_sim
        finally:
            remove_placement_group(group)
    finally:
        for node in added:
            nodes.remove_node(node, allow_graceful=True)


def test_a_gpu_that_nobody_knows_is_taken_whole() -> None:
    (group,) = (NodeGroup(name="x", ram_bytes=64 * GIB, gpus=1),)
    assert resources_for(rllib(), role="learner", nodes=[group])["num_gpus"] == 1
    assert resources_for(rllib(), role="learner")["num_gpus"] == 1


def test_what_fits_no_node_is_an_error_that_says_what_is_missing(nodes: Any) -> None:
    with pytest.raises(
        AnalysisError, match=r"pidog-sac does not fit these nodes: trial needs .* GiB of RAM, the nearest node has"
    ):
        placement_group_for("pidog-sac", [group for group in nodes_of(ray) if group.cpus == 4])
    with pytest.raises(AnalysisError, match=r"env-runner find no place, for want of cores"):
        placement_group_for(rllib(**{"rllib.num_env_runners": 40}), "4x(64GB,4cpu,1xA100-80GB)")
    with pytest.raises(UsageError, match="no role 'worker' in this run; it has driver, env-runner, learner"):
        resources_for(rllib(), role="worker")


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rlmem", "workers", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_command_reads_a_running_cluster(nodes: Any) -> None:
    found = command("crypto-ppo", "--ray", "--address", nodes.address, "--json")
    assert found.returncode == 0, found.stderr
    document = json.loads(found.stdout)
    assert document["trials"] == pack(workload_of(planned(load("crypto-ppo"))), nodes_of(ray)).trials
    assert document["limit"] in ("memory", "cpus")
    assert all(node["store_bytes"] for node in document["nodes"])


def test_a_cluster_that_is_not_there_is_one_line() -> None:
    found = command("crypto-ppo", "--ray", "--address", "127.0.0.1:1")
    assert (found.returncode, found.stdout) == (3, "")
    (line,) = found.stderr.strip().splitlines()[-1:]
    assert line.startswith("rlmem: Ray at 127.0.0.1:1 cannot be reached")


@pytest.fixture
def limited() -> Iterator[Path]:
    """A cgroup of 2 GiB, as a batch system makes them."""
    path = Path("/sys/fs/cgroup/memory", f"rlmem-test-{uuid.uuid4().hex[:8]}")
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(2 * GIB))
    except OSError:
        pytest.skip("no cgroups of version 1 can be made here")
    yield path
    end = time.monotonic() + PATIENCE_S
    while (path / "cgroup.procs").read_text() and time.monotonic() < end:
        time.sleep(0.1)
    path.rmdir()


def test_a_cgroup_that_ray_does_not_see_is_all_that_a_node_has(nodes: Any, limited: Path) -> None:
    def sizes() -> set[int]:
        return {group.ram_bytes for group in nodes_of(ray) if group.cpus == 3}

    node = nodes.add_node(num_cpus=3, memory=8 * GIB)
    try:
        (info,) = node.all_processes["raylet"]
        raylet = psutil.Process(info.process.pid)
        for process in (raylet, *raylet.children(recursive=True)):
            (limited / "cgroup.procs").write_text(str(process.pid))
        assert sizes() == {2 * GIB}
        (group,) = (group for group in nodes_of(ray) if group.cpus == 3)
        packing = pack(workload_of(planned(load("crypto-ppo"))), [group])
        assert 0 < packing.trials <= 2  # Ray would admit ten
    finally:
        nodes.remove_node(node, allow_graceful=True)


def test_a_node_that_left_is_not_counted(nodes: Any) -> None:
    before = sum(group.count for group in nodes_of(ray))
    lost = nodes.add_node(num_cpus=1, memory=GIB)
    assert sum(group.count for group in nodes_of(ray)) == before + 1
    nodes.remove_node(lost, allow_graceful=True)
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and sum(node["Alive"] for node in ray.nodes()) > before:
        time.sleep(0.2)
    assert sum(group.count for group in nodes_of(ray)) == before
