"""Every bound on a process's memory, read from fake machines and from this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmem.process import cgroup
from rlmem.process import limits as module
from rlmem.process.limits import (
    Limit,
    cpu_count,
    parse_cpu_list,
    parse_meminfo,
    read_limits,
    smallest,
    tightest,
)

V2_MOUNT = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
NO_LIMIT_V1 = "9223372036854771712\n"
MEMINFO = "MemTotal:   1000 kB\nMemFree:     100 kB\nMemAvailable: 700 kB\nCached:      500 kB\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    """A fake machine: each path below ``root`` with its text."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def found(root: Path, pid: str = "self") -> list[tuple[str, int, str]]:
    return [(limit.kind, limit.nbytes, limit.detail) for limit in read_limits(root=root, pid=pid)]


def test_an_empty_machine_has_no_limits(tmp_path: Path) -> None:
    assert read_limits(root=tmp_path) == ()


def test_a_v2_limit_is_read_with_what_is_held_under_it(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/job/memory.max": "8000\n",
            "sys/fs/cgroup/job/memory.high": "max\n",
            "sys/fs/cgroup/job/memory.current": "3000\n",
            "sys/fs/cgroup/job/memory.stat": "anon 1000\ninactive_file 1500\nactive_file 500\n",
        },
    )
    assert read_limits(root=tmp_path) == (
        Limit(kind="cgroup v2", nbytes=8000, detail="/sys/fs/cgroup/job/memory.max", used_bytes=1000),
    )


def test_memory_high_is_a_kind_of_its_own(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/job/memory.max": "8000\n",
            "sys/fs/cgroup/job/memory.high": "6000\n",
        },
    )
    least = smallest(read_limits(root=tmp_path))
    assert least is not None and (least.kind, least.nbytes) == ("cgroup v2 high", 6000)


def test_max_all_the_way_up_is_no_limit(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/memory.max": "max\n",
        },
    )
    assert read_limits(root=tmp_path) == ()


def test_an_ancestor_s_smaller_limit_is_found(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/slurm/job_1/step_0\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/slurm/job_1/step_0/memory.max": "9000\n",
            "sys/fs/cgroup/slurm/job_1/memory.max": "4000\n",
            "sys/fs/cgroup/slurm/memory.max": "max\n",
        },
    )
    least = smallest(read_limits(root=tmp_path))
    assert least is not None and least.detail == "/sys/fs/cgroup/slurm/job_1/memory.max"


def test_a_v1_limit_is_read(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/job\n",
            "proc/self/mountinfo": V1_MOUNT,
            "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT_V1,
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "900\n",
        },
    )
    (limit,) = read_limits(root=tmp_path)
    assert (limit.kind, limit.nbytes, limit.used_bytes) == ("cgroup v1", 8000, 900)
    assert limit.detail == "/sys/fs/cgroup/memory/job/memory.limit_in_bytes"


@pytest.mark.parametrize("text", [NO_LIMIT_V1, "9223372036854710272\n", "9223372036854775807\n", "-1\n"])
def test_v1_no_limit_is_known_for_every_page_size(tmp_path: Path, text: str) -> None:
    tree(tmp_path, {"proc/self/mountinfo": V1_MOUNT, "sys/fs/cgroup/memory/memory.limit_in_bytes": text})
    assert read_limits(root=tmp_path) == ()


def test_v1_tells_of_an_ancestor_outside_the_mount(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/pod/ab\n",
            "proc/self/mountinfo": V1_MOUNT.replace(" / ", " /pod/ab ", 1),
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": "100\n",
            "sys/fs/cgroup/memory/memory.stat": "cache 0\nhierarchical_memory_limit 5000\n",
        },
    )
    least = smallest(read_limits(root=tmp_path))
    assert least == Limit(kind="cgroup v1", nbytes=5000, detail="/sys/fs/cgroup/memory/memory.stat")


def test_a_v1_parent_that_does_not_count_its_children_does_not_bind_them(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/a/b\n",
            "proc/self/mountinfo": V1_MOUNT,
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "10\n",
            "sys/fs/cgroup/memory/a/memory.use_hierarchy": "0\n",
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "8000\n",
            "sys/fs/cgroup/memory/a/b/memory.use_hierarchy": "0\n",
        },
    )
    assert [nbytes for _, nbytes, _ in found(tmp_path)] == [8000]


def test_a_hybrid_machine_is_read_in_both_trees(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/job\n1:name=systemd:/\n0::/other\n",
            "proc/self/mountinfo": V1_MOUNT + V2_MOUNT.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "8000\n",
            "sys/fs/cgroup/unified/other/memory.max": "7000\n",
        },
    )
    assert [limit[:2] for limit in found(tmp_path)] == [("cgroup v2", 7000), ("cgroup v1", 8000)]


@pytest.mark.parametrize(
    ("path", "mount_root"),
    [
        ("/", "/"),  # a cgroup namespace: the container is the top
        ("/docker/ab", "/docker/ab"),  # no namespace, its own subtree mounted
        ("/docker/ab", "/"),  # a path of the host that does not exist inside
        ("/../../system.slice", "/"),  # moved out of its namespace
        ("/", "/../.."),  # mounted before the namespace was made
    ],
)
def test_a_container_finds_its_limit_however_it_is_shown(tmp_path: Path, path: str, mount_root: str) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": f"0::{path}\n",
            "proc/self/mountinfo": V2_MOUNT.replace(" / ", f" {mount_root} ", 1),
            "sys/fs/cgroup/memory.max": "8000\n",
        },
    )
    assert found(tmp_path) == [("cgroup v2", 8000, "/sys/fs/cgroup/memory.max")]


def test_a_path_never_leads_out_of_the_root(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    tree(tmp_path, {"memory.max": "1\n"})
    tree(
        inner,
        {
            "proc/self/cgroup": "0::/../../..\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/memory.max": "8000\n",
        },
    )
    assert [nbytes for _, nbytes, _ in found(inner)] == [8000]


def test_another_process_is_read_by_its_pid(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/412/cgroup": "0::/job\n",
            "proc/self/mountinfo": V2_MOUNT,
            "proc/412/mountinfo": V2_MOUNT.replace("/sys/fs/cgroup", "/inside"),
            "proc/412/limits": "Max address space         5000                 unlimited            bytes     \n",
            "sys/fs/cgroup/job/memory.max": "8000\n",
        },
    )
    assert [limit[:2] for limit in found(tmp_path, pid="412")] == [("cgroup v2", 8000), ("RLIMIT_AS", 5000)]


@pytest.mark.parametrize("junk", ["", "\n", "8 GiB\n", "80\n00\n", "0x10\n", "-5\n", "1e9", "\x00\xff", "²"])
def test_a_value_that_is_not_a_whole_number_is_left_out(tmp_path: Path, junk: str) -> None:
    tree(tmp_path, {"proc/self/mountinfo": V2_MOUNT, "sys/fs/cgroup/memory.max": junk})
    assert read_limits(root=tmp_path) == ()


def test_a_limit_of_nothing_is_a_limit(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/self/mountinfo": V2_MOUNT, "sys/fs/cgroup/memory.max": "0\n"})
    assert [nbytes for _, nbytes, _ in found(tmp_path)] == [0]


def test_bytes_that_are_not_text_do_no_harm(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/self/mountinfo": V2_MOUNT, "sys/fs/cgroup/memory.max": "8000\n"})
    for name in ("cgroup", "limits"):
        (tmp_path / "proc/self" / name).write_bytes(b"\xff\xfe\x00::/\x80\n")
    (tmp_path / "proc/meminfo").write_bytes(b"MemTotal: \xff kB\nMemAv")
    assert [nbytes for _, nbytes, _ in found(tmp_path)] == [8000]


def test_a_forbidden_file_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/a/b/memory.max": "3000\n",
            "sys/fs/cgroup/a/memory.max": "8000\n",
        },
    )
    read = Path.read_text

    def guarded(path: Path, encoding: str | None = None, errors: str | None = None) -> str:
        if path.parent.name == "b":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, encoding=encoding, errors=errors)

    # The read is replaced, not the mode of the file: root may read what chmod forbids.
    monkeypatch.setattr(Path, "read_text", guarded)
    assert [nbytes for _, nbytes, _ in found(tmp_path)] == [8000]


def test_a_directory_where_a_file_should_be_is_skipped(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/self/mountinfo": V2_MOUNT, "sys/fs/cgroup/memory.max/x": ""})
    assert read_limits(root=tmp_path) == ()


def test_available_and_physical_memory_come_from_meminfo(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/meminfo": MEMINFO})
    assert read_limits(root=tmp_path) == (
        Limit(kind="available memory", nbytes=700 * 1024, detail="/proc/meminfo, MemAvailable"),
        Limit(
            kind="physical memory",
            nbytes=1000 * 1024,
            detail="/proc/meminfo, MemTotal",
            used_bytes=300 * 1024,
        ),
    )


@pytest.mark.parametrize(("shmem", "kib"), [("", 600), ("Shmem: 50 kB\n", 550)])
def test_an_old_kernel_s_available_memory_is_free_and_cache_less_shared(tmp_path: Path, shmem: str, kib: int) -> None:
    text = "".join(line for line in MEMINFO.splitlines(keepends=True) if "MemAvailable" not in line)
    tree(tmp_path, {"proc/meminfo": text + shmem})
    available = read_limits(root=tmp_path)[0]
    assert (available.kind, available.nbytes) == ("available memory", kib * 1024)
    assert available.detail == "/proc/meminfo, MemFree + Cached"


def test_a_total_alone_is_still_reported_with_use_unknown(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/meminfo": "MemTotal: 1000 kB\nMemAvail"})
    (limit,) = read_limits(root=tmp_path)
    assert (limit.kind, limit.used_bytes) == ("physical memory", None)


def test_meminfo_counts_that_are_not_sizes_are_left_out() -> None:
    assert parse_meminfo("HugePages_Total:       3\nMemTotal:     2 kB\n") == {"MemTotal": 2048}


def test_without_proc_the_system_library_answers() -> None:
    available, physical = module._psutil_limits()
    assert (available.kind, physical.kind) == ("available memory", "physical memory")
    assert 0 < available.nbytes <= physical.nbytes


def test_address_space_and_data_limits_are_read(tmp_path: Path) -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max data size             6000                 unlimited            bytes     \n"
        "Max stack size            8388608              unlimited            bytes     \n"
        "Max address space         5000                 9000                 bytes     \n"
    )
    tree(tmp_path, {"proc/self/limits": text})
    assert [limit[:2] for limit in found(tmp_path)] == [("RLIMIT_AS", 5000), ("RLIMIT_DATA", 6000)]


@pytest.mark.parametrize("infinite", [-1, 2**64 - 1, 2**63 - 1])
def test_an_infinite_address_space_is_no_limit(tmp_path: Path, infinite: int) -> None:
    assert read_limits(root=tmp_path, rlimit_as=infinite) == ()


def test_a_given_address_space_limit_is_taken_over_the_one_on_file(tmp_path: Path) -> None:
    line = "Max address space         5000                 9000                 bytes\n"
    tree(tmp_path, {"proc/self/limits": line})
    assert [limit.nbytes for limit in read_limits(root=tmp_path, rlimit_as=77)] == [77]


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is enforced and listed on Linux")
def test_a_real_child_sees_the_address_space_limit_it_runs_under() -> None:
    code = (
        "import resource; from rlmem.process.limits import read_limits, _own_rlimit_as;"
        "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30));"
        "print([limit.nbytes for limit in read_limits() if limit.kind == 'RLIMIT_AS'], _own_rlimit_as())"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == f"[{8 << 30}] {8 << 30}"


def test_this_machine_has_memory_and_says_where_it_read_it() -> None:
    here = read_limits()
    assert any(limit.kind == "physical memory" for limit in here)
    assert all(limit.nbytes >= 0 and limit.detail for limit in here)


def test_what_others_hold_is_taken_off_and_what_the_run_holds_is_not() -> None:
    limit = Limit(kind="cgroup v2", nbytes=100, detail="", used_bytes=70)
    assert [limit.left_bytes(own_bytes=own) for own in (0, 50, 90)] == [30, 80, 100]


def test_available_memory_adds_to_what_the_run_already_holds() -> None:
    assert Limit(kind="available memory", nbytes=100, detail="").left_bytes(own_bytes=20) == 120


def test_an_overfull_limit_leaves_nothing() -> None:
    assert Limit(kind="cgroup v2 high", nbytes=100, detail="", used_bytes=130).left_bytes() == 0


def test_the_tightest_limit_may_not_be_the_smallest() -> None:
    small = Limit(kind="available memory", nbytes=50, detail="")
    crowded = Limit(kind="cgroup v2", nbytes=80, detail="", used_bytes=60)
    assert (smallest((small, crowded)), tightest((small, crowded))) == (small, crowded)


def test_no_limits_have_no_smallest() -> None:
    assert smallest(()) is None and tightest(()) is None


SIZES = st.integers(min_value=0, max_value=1 << 62)
LIMITS = st.builds(
    Limit,
    kind=st.sampled_from(["cgroup v2", "cgroup v1", "RLIMIT_AS", "available memory", "physical memory"]),
    nbytes=SIZES,
    detail=st.just(""),
    used_bytes=st.none() | SIZES,
)


@given(st.lists(LIMITS, min_size=1))
def test_the_smallest_never_exceeds_any_limit(limits: list[Limit]) -> None:
    least = smallest(limits)
    assert least in limits and all(least.nbytes <= limit.nbytes for limit in limits)


@given(st.lists(LIMITS, min_size=1), SIZES)
def test_the_tightest_never_leaves_more_than_any_limit(limits: list[Limit], own: int) -> None:
    least = tightest(limits, own_bytes=own)
    assert least is not None
    assert all(least.left_bytes(own_bytes=own) <= limit.left_bytes(own_bytes=own) for limit in limits)


@given(st.text())
def test_no_text_in_proc_makes_a_parser_fail(text: str) -> None:
    module.parse_meminfo(text)
    module.parse_rlimits(text)
    parse_cpu_list(text)
    cgroup.parse_cgroup(text)
    cgroup.parse_mountinfo(text)


CPU_LISTS = [("0\n", 1), ("0-3,8", 5), ("", 0), ("3-1", 0), ("a-b,2", 1), ("0-", 1)]


@pytest.mark.parametrize(("text", "count"), CPU_LISTS)
def test_a_cpu_list_is_counted(text: str, count: int) -> None:
    assert parse_cpu_list(text) == count


@pytest.mark.parametrize(
    ("quota", "cores"), [("max 100000", 8), ("150000 100000", 2), ("1000 100000", 1), ("9900000 100000", 8)]
)
def test_cores_are_the_affinity_or_the_quota_rounded_up(tmp_path: Path, quota: str, cores: int) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/step\n",
            "proc/self/mountinfo": V2_MOUNT,
            "proc/self/status": "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n",
            "sys/fs/cgroup/job/cpu.max": quota,
            "sys/fs/cgroup/job/step/cpu.max": "max 100000\n",
        },
    )
    assert cpu_count(tmp_path) == cores


def test_a_v1_quota_limits_the_cores(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "1:cpu,cpuacct:/job\n",
            "proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n",
            "proc/self/status": "Cpus_allowed_list:\t0-7\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "250000\n",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000\n",
        },
    )
    assert cpu_count(tmp_path) == 3


def test_an_empty_machine_still_has_a_core(tmp_path: Path) -> None:
    assert cpu_count(tmp_path) >= 1


def test_this_process_uses_no_more_cores_than_the_machine_has() -> None:
    assert 1 <= cpu_count() <= (os.cpu_count() or 1)
