"""Nodes as people write them."""

from __future__ import annotations

import pytest

from rlmem.cluster.nodes import NodeGroup, parse_nodes
from rlmem.core.machines import MACHINES, find_machine
from rlmem.errors import UsageError
from rlmem.units import GIB


def shape(group: NodeGroup) -> tuple[int, int, float | None, int, int | None]:
    return group.count, group.ram_bytes, group.cpus, group.gpus, group.vram_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("64GB", (1, 64 * 10**9, None, 0, None)),
        ("3 x 32GiB", (3, 32 * GIB, None, 0, None)),
        ("4x(64GB,1xA100-80GB)", (4, 64 * 10**9, None, 1, find_machine("a100-80gb").vram_bytes)),
        ("2x(128GB,16cpu,2xRTX 4090)", (2, 128 * 10**9, 16, 2, find_machine("rtx-4090").vram_bytes)),
        ("1000x(256GB, 64 cpu, 8xh100-80gb)", (1000, 256 * 10**9, 64, 8, find_machine("h100-80gb").vram_bytes)),
        ("(64GB,8 cores,1x24GB-gpu)", (1, 64 * 10**9, 8, 1, 24 * 10**9)),
        ("(64GB,1x(24GB gpu))", (1, 64 * 10**9, None, 1, 24 * 10**9)),
        ("10xaws-g5-xlarge", (10, 16 * GIB, 4, 1, find_machine("a10g").vram_bytes)),
        ("2xkaggle-2xt4", (2, 29 * 10**9, 4, 2, find_machine("t4").vram_bytes)),
        ("(64GB,mi250x)", (1, 64 * 10**9, None, 2, find_machine("mi250x").vram_bytes)),
        ("(aws-g5-xlarge,2cpu)", (1, 16 * GIB, 2, 1, find_machine("a10g").vram_bytes)),
        ("(2cpu,aws-g5-xlarge)", (1, 16 * GIB, 2, 1, find_machine("a10g").vram_bytes)),
        ("(gcp-n2-standard-8,1xt4)", (1, 32 * GIB, 8, 1, find_machine("t4").vram_bytes)),
        ("(1xt4,gcp-n2-standard-8)", (1, 32 * GIB, 8, 1, find_machine("t4").vram_bytes)),
        ("dgx-spark", (1, 128 * GIB, 20, 1, None)),
    ],
)
def test_a_group_is_a_count_and_a_node(text: str, expected: tuple[int, int, float | None, int, int | None]) -> None:
    (group,) = parse_nodes(text)
    assert shape(group) == expected


@pytest.mark.parametrize("mark", ["+", ";"])
def test_groups_keep_their_order(mark: str) -> None:
    groups = parse_nodes(f"4x(64GB,1xA100-80GB) {mark} 2xaws-g5-xlarge{mark}128GB")
    assert [group.count for group in groups] == [4, 2, 1]
    assert [group.gpu for group in groups] == ["a100-80gb", "a10g", None]


@pytest.mark.parametrize("machine", [machine.name for machine in MACHINES if machine.ram_bytes is not None])
def test_every_machine_of_the_catalogue_is_a_node(machine: str) -> None:
    (group,) = parse_nodes(f"7x{machine}")
    assert (group.count, group.ram_bytes) == (7, find_machine(machine).ram_bytes)
    assert group.gpus == 0 or group.unified or group.gpu in {card.name for card in MACHINES if card.kind == "card"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a group is missing"),
        ("64GB+", "a group is missing"),
        ("4x", "neither a size nor a machine"),
        ("64", "64 of what? add a unit, such as 64GB"),
        ("0x64GB", "a count from 1"),
        ("9999999999x64GB", "a count from 1"),
        ("1000000x64GB + 64GB", "over 1,000,000 nodes"),
        ("(64GB", "brackets do not match"),
        ("64GB)", "brackets do not match"),
        ("(64GB,)", "a part is missing"),
        ("(64GB,32GB)", "two sizes of RAM"),
        ("(64GB,64GB)", "two sizes of RAM"),
        ("(64GB,16cpu,8cpu)", "two numbers of cores"),
        ("(64GB,1xt4,1xt4)", "GPUs twice"),
        ("(aws-g5-xlarge,1xt4)", "GPUs twice"),
        ("(64GB,aws-g5-xlarge)", "two sizes of RAM"),
        ("(1xa100-80gb)", "how much RAM"),
        ("(64GB,1xa100-80gb,1xt4)", "two groups of nodes for two kinds"),
        ("(64GB,2xaws-g5-xlarge)", "a whole machine"),
        ("(64GB,99xt4)", "a count from 1 to 64"),
        ("(64GB,99999cpu)", "from 1 to 4,096 cores"),
        ("4xrtx-4090", "a node has RAM too: 4x(64GB,1xrtx-4090)"),
        ("4x(64GB,1xA100)", "there is a100-40gb and a100-80gb"),
        ("(64GB,1xrtx-409)", "did you mean 'rtx-4090'"),
        ("64kB", "add a unit"),
        ("x" * 5000, "neither a size nor a machine"),
        ("٤x64GB", "neither a size nor a machine"),
    ],
)
def test_what_is_no_node_is_one_line_that_says_what_to_write(text: str, problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_nodes(text)
    message = str(caught.value)
    assert problem in message
    assert "\n" not in message
    assert len(message) < 300
