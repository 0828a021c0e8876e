"""Bundles as Ray is asked for them find a place, or do not."""

from __future__ import annotations

import pytest

from rlmem.cluster.bundles import find_place
from rlmem.cluster.nodes import parse_nodes
from rlmem.cluster.room import Terms
from rlmem.cluster.workload import Need, Workload
from rlmem.units import GIB

RUN = Workload(name="run", needs=(Need(role="trial", ram_bytes=GIB),))
TERMS = Terms(margin=0.1)


def of(gib: float, **more: float) -> dict[str, float]:
    return {"CPU": 1, "memory": gib * GIB, **more}


@pytest.mark.parametrize(
    ("bundles", "nodes", "strategy", "fits"),
    [
        ([of(9)] * 3, "3x16GB", "PACK", True),
        ([of(9)] * 3, "2x16GB", "PACK", False),
        ([of(27)], "3x16GB", "PACK", False),
        ([of(9)] * 3, "3x16GB", "STRICT_PACK", False),
        ([of(4)] * 3, "3x16GB", "STRICT_PACK", True),
        ([of(1)] * 3, "2x16GB", "STRICT_SPREAD", False),
        ([of(1)] * 3, "2x16GB + 64GB", "STRICT_SPREAD", True),
        ([of(9)] * 3, "2x16GB + 8GB", "STRICT_SPREAD", False),
        ([of(1)] * 3, "16GB", "SPREAD", True),
        ([of(1, sim=1)] * 3, "16GB", "PACK", True),
        ([of(1, CPU=3)] * 2, "(64GB,4cpu)", "PACK", False),
        ([{}, of(1, GPU=0.6), of(1, GPU=0.6)], "(64GB,1xT4)", "PACK", False),
        ([{}, of(1, GPU=0.6), of(1, GPU=0.4)], "(64GB,1xT4)", "PACK", True),
        ([of(1, GPU=0.5)], "64GB", "PACK", False),
    ],
)
def test_bundles_find_a_place_or_do_not(bundles: list[dict[str, float]], nodes: str, strategy: str, fits: bool) -> None:
    assert find_place(bundles, parse_nodes(nodes), RUN, TERMS, strategy=strategy) is fits


def test_what_a_node_pays_once_is_paid_with_the_margin() -> None:
    paid = Workload(name="run", needs=RUN.needs, node_bytes=2 * GIB)
    nodes = parse_nodes("10GiB")  # 9.5 GiB may be used, 2.2 are paid, and the smallest store takes its part
    assert find_place([of(7.2)], nodes, paid, TERMS)
    assert not find_place([of(7.3)], nodes, paid, TERMS)
