"""Nodes found and a run placed on them by typed requests, without a command line."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from rlmem.app.stacks import compare_stacks
from rlmem.app.subjects import open_subject
from rlmem.app.swarm import TrainRequest
from rlmem.app.workers import NodesRequest, WorkersRequest, find_nodes, fit_workers
from rlmem.core.plan import Budget
from rlmem.errors import UsageError
from rlmem.sources.target import parse_target
from rlmem.units import GIB


def quietly(_text: str) -> Any:
    return nullcontext()


def test_a_run_is_placed_on_nodes_that_were_named() -> None:
    groups = find_nodes(NodesRequest(nodes="4x(64GB,16cpu)"), quietly)
    request = WorkersRequest(target=parse_target("crypto-ppo"), groups=groups, margin=0.1, on_ray=True)
    placement = fit_workers(request, quietly)
    assert (placement.trials, placement.limit, placement.on_ray) == (64, "cpus", True)
    assert [(use.group, use.nodes, use.trials) for use in placement.uses] == [(0, 4, 16)]


def test_a_machine_of_the_catalogue_is_one_node_and_a_size_has_no_cores() -> None:
    (machine,) = find_nodes(NodesRequest(machine="aws-g5-xlarge"), quietly)
    assert (machine.count, machine.cpus, machine.gpus) == (1, 4, 1)
    (stated,) = find_nodes(NodesRequest(ram="31GB"), quietly)
    assert (stated.ram_bytes, stated.cpus, stated.vram_bytes) == (31 * 10**9, None, None)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (NodesRequest(nodes="4x64GB", ram="64GB"), "contradict"),
        (NodesRequest(live=True, machine="aws-g5-xlarge"), "contradict"),
        (NodesRequest(nodes="4x64GB", address="10.0.0.1:6379"), "--address is for --ray"),
        (NodesRequest(nodes="4x"), "neither a size nor a machine"),
    ],
)
def test_requests_that_contradict_themselves_are_refused(request_: NodesRequest, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_nodes(request_, quietly)


def test_other_stacks_hold_whole_rollouts_and_a_stream_holds_less() -> None:
    target = parse_target("drone-swarm", sets=("agents=1000",))
    document = compare_stacks(open_subject(target, Budget(name="here", ram_bytes=16 * GIB), progress=quietly))
    assert {stack.nbytes for stack in document.stacks if stack.factor == 2} == {2 * document.observations_bytes}
    described, stream = document.runs
    assert (described.name, stream.name) == ("as described", "storage=stream")
    assert stream.nbytes < document.observations_bytes < described.nbytes


def test_a_training_that_contradicts_itself_is_refused_before_anything_is_loaded() -> None:
    with pytest.raises(UsageError, match="--no-checkpoint contradicts"):
        TrainRequest(settings={}, no_checkpoint=True, every=2).check()
