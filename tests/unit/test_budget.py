"""What a run may use: flags, machines, one pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.budget import make_budget, sized_budget
from rlmem.errors import UsageError
from rlmem.planner import Planner
from rlmem.sources.preset import read_preset
from rlmem.units import GIB


def test_given_sizes_are_the_limits_and_their_own_source() -> None:
    budget = make_budget(ram="30GB", vram="24GiB")
    assert budget.limits == {"ram": 30 * 10**9, "vram": 24 * GIB}
    assert (budget.name, budget.ram_source) == ("--ram 30GB and --vram 24GiB", "--ram 30GB")


def test_a_machine_brings_its_own_limits_and_a_flag_wins_over_it() -> None:
    budget = make_budget(machine="colab-t4", ram="51GB")
    assert budget.limits == {"ram": 51 * 10**9, "vram": 15360 << 20}
    assert budget.name == "colab-t4 with --ram 51GB"
    assert budget.cores == 2


def test_a_card_says_nothing_about_ram() -> None:
    assert make_budget(machine="rtx-4090").limits == {"ram": None, "vram": 24564 << 20}


def test_without_flags_the_limits_of_this_machine_count(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 4194304 kB\nMemAvailable: 2097152 kB\n")
    budget = make_budget(root=tmp_path)
    assert budget.name == "this machine"
    assert budget.ram_bytes is not None
    assert budget.ram_bytes <= 4 * GIB


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({"ram": "lots"}, "--ram 'lots' is not a size"),
        ({"vram": "-1GB", "ram": "1GB"}, "--vram '-1GB'"),
        ({"ram": "3 gigs"}, "unknown unit"),
        ({"machine": "rtx-409"}, "did you mean 'rtx-4090'"),
    ],
)
def test_a_wrong_flag_is_named(flags: dict[str, str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("(", r"\(")):
        make_budget(**flags)


def test_one_pool_holds_both_devices() -> None:
    spec = read_preset("pyboy-ppo")
    apart = Planner(make_budget(ram="64GB", vram="16GB")).plan(spec, findings=False)
    together = Planner(make_budget(machine="macbook-m1-16gb")).plan(spec, findings=False)
    assert together.ledger.devices == ("ram",)
    for phase in apart.ledger.phases:
        assert together.ledger.only(phase=phase).nbytes == apart.ledger.only(phase=phase).nbytes
    assert together.tops[0].limit_bytes == 16 * GIB


def test_vram_given_by_hand_splits_a_pool() -> None:
    assert not make_budget(machine="macbook-m1-16gb", vram="8GB").unified


def test_a_bare_size_limits_the_device_of_the_learner() -> None:
    assert sized_budget("16GB", "vram").limits == {"ram": None, "vram": 16 * 10**9}
    assert sized_budget("16GB", "ram").limits == {"ram": 16 * 10**9, "vram": None}
    assert sized_budget("rtx-4090", "ram").vram_bytes == 24564 << 20
    with pytest.raises(UsageError, match="unknown unit"):
        sized_budget("16GG", "ram")
