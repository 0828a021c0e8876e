"""The table of machines: names people type, figures that hold together."""

from __future__ import annotations

import re

import pytest

from rlmem.core.machines import MACHINES, Machine, find_machine
from rlmem.errors import UsageError
from rlmem.units import GIB, MIB

by_name = pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)


def test_names_are_unique() -> None:
    assert len({machine.name for machine in MACHINES}) == len(MACHINES)


@by_name
def test_a_name_is_lowercase_words_joined_by_dashes(machine: Machine) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", machine.name)


@by_name
def test_every_machine_says_where_its_figures_come_from(machine: Machine) -> None:
    assert machine.about and machine.source


@by_name
def test_a_machine_has_some_memory_of_a_plausible_size(machine: Machine) -> None:
    sizes = [size for size in (machine.ram_bytes, machine.vram_bytes) if size is not None]
    assert sizes and all(4 * GIB <= size <= 4096 * GIB for size in sizes)


@by_name
def test_gpu_memory_and_gpus_come_together_unless_the_pool_is_one(machine: Machine) -> None:
    if machine.unified:
        assert machine.vram_bytes is None and machine.ram_bytes is not None
    else:
        assert (machine.vram_bytes is not None) == (machine.gpus > 0)


@by_name
def test_only_a_card_has_no_ram(machine: Machine) -> None:
    assert (machine.ram_bytes is None) == (machine.kind == "card")


def test_the_table_covers_each_kind() -> None:
    assert {machine.kind for machine in MACHINES} == {"card", "host", "unified"}


@pytest.mark.parametrize(
    ("name", "mib"),
    [("rtx-4090", 24564), ("a100-80gb", 81920), ("h100-80gb", 81559), ("h200", 143771), ("t4", 15360)],
)
def test_a_card_has_the_total_its_driver_reports(name: str, mib: int) -> None:
    assert find_machine(name).vram_bytes == mib * MIB


def test_a_cloud_shape_has_its_card_s_memory_per_gpu() -> None:
    shape = find_machine("aws-p4d-24xlarge")
    assert (shape.gpus, shape.vram_bytes) == (8, find_machine("a100-40gb").vram_bytes)


def test_an_amd_total_is_the_number_of_bytes_the_driver_reports() -> None:
    assert find_machine("mi300x").vram_bytes == 206141652992
    assert find_machine("rx-7900-xtx").vram_bytes == 25753026560


@pytest.mark.parametrize("typed", ["rtx-4090", "RTX 4090", " rtx_4090 ", "Rtx-4090"])
def test_case_and_separators_do_not_matter(typed: str) -> None:
    assert find_machine(typed).name == "rtx-4090"


def test_a_cloud_name_may_keep_its_dot() -> None:
    assert find_machine("aws-g5.xlarge").name == "aws-g5-xlarge"


def test_a_near_miss_is_answered_with_the_name_meant() -> None:
    with pytest.raises(UsageError, match=r"unknown machine 'rtx-409O' \(did you mean 'rtx-4090'\?\)"):
        find_machine("rtx-409O")


@pytest.mark.parametrize("typed", ["", "zzzzzzzzzzzzz"])
def test_a_name_like_no_other_is_refused_with_advice(typed: str) -> None:
    with pytest.raises(UsageError, match="give a name from the table"):
        find_machine(typed)
