"""What a run may use: flags, machines, one pool."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.budget import cap_bytes, free_here, make_budget, sized_budget
from rlmem.core.plan import Plan
from rlmem.documents.plan import plan_document
from rlmem.errors import UsageError
from rlmem.planner import Planner
from rlmem.report.plan import verdict_lines
from rlmem.sources.preset import read_preset
from rlmem.units import GIB


def test_given_sizes_are_the_limits_and_their_own_source() -> None:
    budget = make_budget(ram="30GB", vram="24GiB")
    assert budget.limits == {"ram": 30 * 10**9, "vram": 24 * GIB}
    assert (budget.name, budget.ram_source) == ("--ram 30GB and --vram 24GiB", "--ram 30GB")


def test_a_cap_is_bytes_or_text_and_without_one_most_of_what_is_left() -> None:
    assert cap_bytes("8GB") == cap_bytes(8 * 10**9) == 8 * 10**9
    left = free_here().ram_bytes
    most = cap_bytes(None)
    assert left is not None
    assert most is not None
    assert 0 < most < 2 * left
    with pytest.raises(UsageError, match="--cap"):
        cap_bytes("much")


def test_a_machine_brings_its_own_limits_and_a_flag_wins_over_it() -> None:
    budget = make_budget(machine="colab-t4", ram="51GB")
    assert budget.limits == {"ram": 51 * 10**9, "vram": 15360 << 20}
    assert budget.name == "colab-t4 with --ram 51GB"
    assert budget.cores == 2


def test_a_card_says_nothing_about_ram() -> None:
    assert make_budget(machine="rtx-4090").limits == {"ram": None, "vram": 24564 << 20}


def machine(root: Path, *, available_kib: int, total_kib: int = 4 << 20) -> Path:
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {total_kib} kB\nMemAvailable: {available_kib} kB\n")
    return root


def test_the_limit_of_this_machine_does_not_move_with_what_else_runs(tmp_path: Path) -> None:
    quiet = make_budget(root=machine(tmp_path, available_kib=3 << 20))
    busy = make_budget(root=machine(tmp_path, available_kib=1 << 20))
    assert quiet.name == busy.name == "this machine"
    assert quiet.ram_bytes == busy.ram_bytes == 4 * GIB
    assert quiet.ram_source == busy.ram_source == "physical memory (/proc/meminfo, MemTotal)"
    assert (quiet.free_ram_bytes, busy.free_ram_bytes) == (3 * GIB, 1 * GIB)
    assert free_here(tmp_path).ram_bytes == 1 * GIB


def test_a_cgroup_s_limit_counts_whole_whatever_is_used_of_it(tmp_path: Path) -> None:
    root = machine(tmp_path, available_kib=3 << 20)
    (root / "proc/self").mkdir()
    (root / "proc/self/cgroup").write_text("0::/job\n")
    group = root / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    (root / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")
    (group / "memory.max").write_text(f"{2 * GIB}\n")
    (group / "memory.current").write_text(f"{GIB}\n")
    budget = make_budget(root=root)
    assert budget.ram_bytes == 2 * GIB
    assert "memory.max" in budget.ram_source
    assert budget.free_ram_bytes is not None
    assert budget.free_ram_bytes < 2 * GIB


def test_what_is_free_now_is_a_warning_beside_the_verdict(tmp_path: Path) -> None:
    spec = read_preset("pyboy-ppo")

    def planned(free_gib: int) -> Plan:
        root = machine(tmp_path, available_kib=free_gib << 20, total_kib=64 << 20)
        return Planner(make_budget(vram="64GB", root=root)).plan(spec)

    ample, scarce = planned(60), planned(1)
    assert ample.verdict == scarce.verdict == "fits"
    assert ample.warnings == ()
    (said,) = scarce.warnings
    assert said.startswith("RAM free now: 1.00 GiB, ")
    assert (said, "warn") in verdict_lines(plan_document(scarce))
    given = Planner(make_budget(ram="64GB", vram="64GB", root=tmp_path)).plan(spec)
    assert given.warnings == ()


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
    apart = Planner(make_budget(ram="64GB", vram="16GB")).plan(spec)
    together = Planner(make_budget(machine="macbook-m1-16gb")).plan(spec)
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
