"""What a plan asks of Ray, where Ray need not be."""

from __future__ import annotations

import importlib.util

import pytest

from rlmem.cluster.nodes import parse_nodes
from rlmem.core.machines import find_machine
from rlmem.core.plan import Budget
from rlmem.errors import AnalysisError, UsageError
from rlmem.planner import Planner
from rlmem.ray import placement_group_for, resources_for
from rlmem.sources import load


def test_options_of_an_actor_need_no_ray() -> None:
    options = resources_for("crypto-ppo", nodes="4x(64GB,16cpu)")
    assert (options["num_cpus"], options["num_gpus"]) == (1, 0)
    assert 600e6 < options["memory"] < 1e9


def test_a_share_is_of_the_gpu_that_the_plan_was_made_for() -> None:
    vram = find_machine("a100-80gb").vram_bytes
    spec = load("pyboy-ppo")
    plan = Planner(Budget(name="a100", vram_bytes=vram)).plan(spec)
    on_nodes = resources_for(spec, nodes="(64GB,1xA100-80GB)")
    assert resources_for(plan) == on_nodes
    assert 0.1 < on_nodes["num_gpus"] < 0.5
    # One number for GPUs of two sizes is the one that holds on both.
    both = parse_nodes("(64GB,1xA100-80GB) + (64GB,1xrtx-4090)")
    assert resources_for(spec, nodes=both)["num_gpus"] > on_nodes["num_gpus"]
    # A GPU that is too small for it says nothing about the others.
    assert resources_for(spec, nodes="(64GB,1xA100-80GB) + (64GB,1xrtx-3070)") == on_nodes


def test_more_than_one_gpu_holds_is_an_error() -> None:
    plan = Planner(Budget(name="small", vram_bytes=8 * 10**9)).plan(load("pyboy-ppo"))
    with pytest.raises(AnalysisError, match="more than one GPU has"):
        resources_for(plan)
    with pytest.raises(AnalysisError, match="of GPU memory, the nearest node has"):
        resources_for(plan, nodes="(64GB,1xrtx-3070)")


def test_a_larger_margin_asks_for_more() -> None:
    asked = [resources_for("crypto-ppo", margin=margin)["memory"] for margin in (0.0, 0.1, 0.5)]
    assert asked == sorted(set(asked))


@pytest.mark.parametrize("wanted", [None, 3, {"n_envs": 4}])
def test_what_is_no_run_is_refused(wanted: object) -> None:
    with pytest.raises(UsageError, match="a plan, a RunSpec or a target"):
        resources_for(wanted)  # type: ignore[arg-type]


def test_a_script_is_for_the_command_line() -> None:
    with pytest.raises(UsageError, match="a script can be planned"):
        resources_for("train.py")


_FOUND = importlib.util.find_spec("ray")  # a folder called ray is found too, and has no file


@pytest.mark.skipif(_FOUND is not None and _FOUND.origin is not None, reason="Ray is here")
def test_without_ray_the_extra_is_named() -> None:
    with pytest.raises(AnalysisError, match=r"pip install 'rlmem\[ray\]'"):
        placement_group_for("crypto-ppo")
