"""How many a node holds and what stops it, what is missing, and what would do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from rlmem.cluster.answers import most_bundles, node_holds, resized
from rlmem.cluster.lacking import lacks
from rlmem.cluster.nodes import group_of, parse_nodes
from rlmem.cluster.packing import pack
from rlmem.cluster.workload import STRICT_PACK, STRICT_SPREAD, Need, Workload
from rlmem.core.machines import find_machine
from rlmem.units import GIB, MIB

RUN = Workload(
    name="rllib",
    needs=(
        Need(role="driver", ram_bytes=2 * GIB),
        Need(role="env-runner", count=100, ram_bytes=700 * MIB),
        Need(role="learner", count=2, ram_bytes=3 * GIB, vram_bytes=9 * GIB, cpus=0),
    ),
    node_bytes=600 * MIB,
    store_bytes=3 * GIB,
)


def test_every_resource_says_how_many_it_would_hold_alone() -> None:
    packing = pack(RUN, parse_nodes("4x(64GB,8cpu,1xA100-80GB)"))
    rows = {row.role: row for row in node_holds(packing)}
    assert (rows["env-runner"].count, rows["env-runner"].limit) == (8, "cpus")
    assert dict(rows["env-runner"].by)["ram"] == 70
    assert (rows["learner"].count, rows["learner"].limit) == (8, "vram")
    assert "cpus" not in dict(rows["learner"].by)


@given(st.integers(1, 40), st.integers(1, 64), st.integers(0, 4))
@settings(max_examples=60, deadline=None)
def test_what_a_node_is_said_to_hold_can_be_placed_there_and_one_more_cannot(gib: int, cpus: int, gpus: int) -> None:
    """For bundles that drive nothing: packed as a workload of their own, what a node is said to hold fits, and no more."""
    text = f"({gib + 2}GiB,{cpus}cpu" + (f",{gpus}xrtx-4090)" if gpus else ")")
    groups = parse_nodes(text)
    for need in (Need(role="a", ram_bytes=900 * MIB), Need(role="b", ram_bytes=GIB, vram_bytes=5 * GIB, cpus=0.5)):
        alone = Workload(name="one", needs=(need,), node_bytes=RUN.node_bytes)
        (row,) = node_holds(pack(alone, groups))
        assert pack(alone, groups).trials == row.count


def test_a_bundle_that_fits_no_node_says_what_it_lacks_and_which_machine_would_hold_it() -> None:
    packing = pack(RUN, parse_nodes("3GB"))
    by_role = {lack.role: lack for lack in lacks(packing)}
    driver = by_role["driver"]
    assert (driver.never, driver.resource, driver.count) == (True, "ram", 1)
    assert driver.has == int(0.95 * 3e9)
    assert driver.needs > 2.2 * GIB + 3.3 * GIB  # itself, and everything in flight
    machine = group_of(find_machine(driver.machine or ""))
    assert pack(Workload(name="d", needs=RUN.needs[:1], store_bytes=3 * GIB), (machine,)).trials


def test_gpu_memory_names_the_smallest_card_that_would_do() -> None:
    packing = pack(RUN, parse_nodes("2x(64GB,64cpu)"))
    (lack,) = lacks(packing)
    assert (lack.role, lack.resource, lack.has, lack.machine) == ("learner", "vram", 0, "rtx-3080")
    huge = replace(RUN, needs=(*RUN.needs[:2], replace(RUN.needs[2], vram_bytes=900 * GIB)))
    (lack,) = lacks(pack(huge, parse_nodes("2x(64GB,64cpu,8xb200)")))
    assert lack.machine is None


def test_nodes_that_are_full_say_how_many_would_do() -> None:
    groups = parse_nodes("4x(64GB,8cpu,1xA100-80GB)")
    (lack,) = lacks(pack(RUN, groups))
    assert (lack.role, lack.never, lack.resource) == ("env-runner", False, "cpus")
    assert lack.nodes is not None
    assert pack(RUN, [replace(groups[0], count=lack.nodes)]).trials
    assert not pack(RUN, [replace(groups[0], count=lack.nodes - 1)]).trials


def test_the_largest_number_of_runners_fits_and_one_more_does_not() -> None:
    groups = parse_nodes("4x(64GB,8cpu,1xA100-80GB)")
    most = most_bundles(RUN, "env-runner", groups)
    assert most == 31  # 32 cores, and the driver has one
    assert pack(resized(RUN, "env-runner", most), groups).trials
    assert not pack(resized(RUN, "env-runner", most + 1), groups).trials


def shared_out(whole: int, each: int, *, count: int) -> Workload:
    """A batch divided among the runners, each of which holds something whatever its part."""
    runner = Need(role="env-runner", count=count, ram_bytes=each + -(-whole // count))
    return Workload(name="auto", needs=(Need(role="driver", ram_bytes=GIB), runner), store_bytes=whole)


@given(
    st.integers(1, 200),
    st.integers(50, 900),
    st.integers(1, 60),
    st.sampled_from(
        ["14x(10GB,1cpu)", "12x8GB + 2x24GB", "6x(30GB,4cpu)", "40x3GB", "3x3GB", "20x(5GB,2cpu) + 5x20GB"]
    ),
)
@settings(max_examples=30, deadline=None)
def test_where_runners_shrink_as_there_are_more_the_largest_number_is_found_all_the_same(
    gib: int, each: int, asked: int, nodes: str
) -> None:
    groups = parse_nodes(f"1x(600GB,1cpu) + {nodes}")

    def again(count: int) -> Workload:
        return shared_out(gib * GIB, each * MIB, count=count)

    most = most_bundles(again(asked), "env-runner", groups, again=again)
    fitting = [count for count in range(1, 60) if pack(again(count), groups, trials=1).trials]
    assert all(most >= count for count in fitting)
    assert most == 0 or pack(again(most), groups).trials
    assert most >= (asked if pack(again(asked), groups).trials else 0)


def test_what_is_asked_for_and_fits_is_no_more_than_the_most() -> None:
    """Fewer do not fit: each would hold more."""
    groups = parse_nodes("1x(600GB,1cpu) + 14x(10GB,1cpu)")

    def fits(count: int) -> bool:
        return bool(pack(shared_out(45 * GIB, 100 * MIB, count=count), groups, trials=1).trials)

    assert [count for count in range(1, 30) if fits(count)] == [13, 14]
    for asked in (1, 13, 14, 20):
        workload = shared_out(45 * GIB, 100 * MIB, count=asked)
        again = partial(_again, 45 * GIB)
        assert most_bundles(workload, "env-runner", groups, again=again) == 14


def _again(whole: int, count: int) -> Workload:
    return shared_out(whole, 100 * MIB, count=count)


def test_where_not_even_one_runner_fits_the_answer_is_none() -> None:
    assert most_bundles(RUN, "env-runner", parse_nodes("1GB")) == 0


def test_of_several_groups_the_nearest_one_is_named() -> None:
    packing = pack(
        Workload(name="x", needs=(Need(role="trial", ram_bytes=100 * GIB),)), parse_nodes("16GB + 64GB + 32GB")
    )
    (lack,) = lacks(packing)
    assert packing.groups[lack.group].name == "64GB"


def test_where_bundles_must_differ_it_is_nodes_that_are_missing() -> None:
    groups = parse_nodes("10x(64GB,64cpu) + 2x(64GB,64cpu,1xA100-80GB)")
    (lack,) = lacks(pack(replace(RUN, strategy=STRICT_SPREAD), groups))
    assert (lack.role, lack.count, lack.never) == ("env-runner", 91, False)  # the driver, learners and nine find a node
    assert (lack.resource, lack.needs, lack.has) == ("nodes", 103, 12)
    assert lack.nodes == 103 - 2


def test_a_trial_that_must_be_on_one_node_says_what_that_lacks() -> None:
    groups = parse_nodes("4x(64GB,120cpu,2xA100-80GB) + 2x(96GB,64cpu,1xA100-80GB)")
    strict = replace(RUN, needs=(*RUN.needs[:2], replace(RUN.needs[2], whole_gpu=True)), strategy=STRICT_PACK)
    (lack,) = lacks(pack(strict, groups))
    assert (lack.role, lack.never, lack.group, lack.resource) == ("trial", True, 0, "ram")
    assert lack.has == int(0.95 * 64e9)
    need = 1.1 * (2 + 100 * 700 / 1024 + 2 * 3 + 600 / 1024) + 1.1 * 3 / 0.8
    assert abs(lack.needs / GIB - need) < 0.01
    machine = group_of(find_machine(lack.machine or ""))
    assert pack(strict, (machine,)).trials
    (lack,) = lacks(pack(strict, parse_nodes("(512GB,64cpu,2xA100-80GB)")))
    assert (lack.resource, lack.needs, lack.has) == ("cpus", 101, 64)
    (lack,) = lacks(pack(strict, parse_nodes("(512GB,128cpu,1xA100-80GB)")))
    assert (lack.role, lack.resource) == ("trial", "vram")


def test_a_custom_resource_that_no_node_has_is_what_is_lacking() -> None:
    (node,) = parse_nodes("(64GB,16cpu)")
    need = Need(role="trial", ram_bytes=GIB, resources=(("sim", 2.0),))
    (lack,) = lacks(pack(Workload(name="sim", needs=(need,)), (replace(node, resources=(("sim", 1.0),)),)))
    assert (lack.never, lack.resource, lack.needs, lack.has, lack.machine) == (True, "resource sim", 2, 1, None)
