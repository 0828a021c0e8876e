"""Node, process, owner: sums count each page once, and what could not be read is not a zero."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rlmem.cluster.holdings import (
    ClusterHoldings,
    GpuRoom,
    NodeHoldings,
    ProcessHoldings,
    StoreHoldings,
    from_data,
    to_data,
)
from rlmem.core.holdings import GpuShare, Holding, Portion
from rlmem.units import MIB

SIZES = st.integers(0, 2**40)


def process(pid: int, role: str, pss: int | None, store: int | None = 0, **more: Any) -> ProcessHoldings:
    given = {"pid": pid, "role": role, "rss_bytes": pss or MIB, "pss_bytes": pss, "store_bytes": store}
    return ProcessHoldings(**{**given, **more})


def node(*processes: ProcessHoldings, store: int | None = 0, **more: Any) -> NodeHoldings:
    return NodeHoldings(node_id="n", processes=processes, store=StoreHoldings(resident_bytes=store), **more)


def test_the_store_counts_once_and_not_in_those_who_have_it_mapped() -> None:
    found = node(process(1, "driver", 70 * MIB, 30 * MIB), process(2, "env-runner", 50 * MIB, 30 * MIB), store=60 * MIB)
    assert found.heap_bytes == (40 + 20) * MIB
    assert found.pss_bytes == (40 + 20 + 60) * MIB


def test_a_store_that_cannot_be_seen_is_what_processes_have_of_it() -> None:
    found = node(process(1, "driver", 70 * MIB, 30 * MIB), process(2, "task", 50 * MIB, None), store=None)
    assert found.pss_bytes == (40 + 50 + 30) * MIB


def test_what_may_not_be_read_is_unknown_and_not_a_part_of_the_sum() -> None:
    closed = process(1, "task", None, None)
    assert (closed.heap_bytes, node(closed).pss_bytes, node().pss_bytes) == (None, None, None)
    assert node(closed, process(2, "task", MIB)).pss_bytes == MIB
    assert node(closed).vram_bytes is None


def test_vram_is_added_over_gpus_where_a_driver_says() -> None:
    two = process(1, "learner", MIB, gpus=(GpuShare(gpu="a", used_bytes=3), GpuShare(gpu="b", used_bytes=4)))
    silent = process(2, "learner", MIB, gpus=(GpuShare(gpu="a"),))
    assert (two.vram_bytes, silent.vram_bytes) == (7, None)
    assert node(two, silent).vram_bytes == 7


def test_a_node_that_did_not_answer_leaves_the_others_sum_and_makes_it_incomplete() -> None:
    lost = NodeHoldings(node_id="x", problem="no answer within 30 s")
    found = ClusterHoldings(nodes=(node(process(1, "driver", MIB)), lost))
    assert (found.pss_bytes, found.is_complete) == (MIB, False)
    assert ClusterHoldings(nodes=(lost,)).pss_bytes is None


@given(
    st.lists(
        st.tuples(
            st.lists(
                st.tuples(st.sampled_from(["driver", "env-runner", "Judge", "ray"]), SIZES, st.floats(0, 1)), max_size=6
            ),
            SIZES,
        ),
        max_size=4,
    )
)
def test_roles_add_up_to_nodes_and_nodes_to_the_cluster(data: list[Any]) -> None:
    nodes = tuple(
        node(
            *(process(pid, role, pss, int(share * pss)) for pid, (role, pss, share) in enumerate(processes)),
            store=store if processes else 0,
        )
        for processes, store in data
    )
    found = ClusterHoldings(nodes=nodes)
    assert sum(found.by_role().values()) == (found.pss_bytes or 0) == sum(each.pss_bytes or 0 for each in nodes)


def test_roles_come_in_the_order_of_a_report_with_other_classes_after_the_tasks() -> None:
    roles = ("ray", "Judge", "idle", "learner", "driver", "env-runner", "task")
    found = node(*(process(pid, role, MIB) for pid, role in enumerate(roles)), store=MIB)
    order = list(ClusterHoldings(nodes=(found,)).by_role())
    assert order == ["driver", "env-runner", "learner", "task", "Judge", "idle", "object-store", "ray"]


def test_what_a_probe_sends_comes_back_through_json_and_unknown_fields_are_left_out() -> None:
    owner = Holding(path="self.x", kind="array", type="ndarray", nbytes=8, resident_bytes=8, file="object-store")
    full = process(
        1, "task", MIB, holdings=(owner,), portions=(Portion(name="heap", resident_bytes=1),), gpus=(GpuShare(gpu="a"),)
    )
    sent = replace(node(full, store=5), gpus=(GpuRoom(name="a", total_bytes=9),), notes=("said",))
    data = json.loads(json.dumps(to_data(sent)))
    assert from_data(data) == sent
    data["later"] = data["processes"][0]["later"] = data["processes"][0]["holdings"][0]["later"] = 1
    assert from_data(data) == sent
