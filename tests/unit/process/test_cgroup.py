"""Finding a process in the cgroup tree, from the text the kernel writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlmem.process.cgroup import (
    V1,
    V2,
    Level,
    Mount,
    below,
    cpu_quota,
    levels,
    parse_cgroup,
    parse_mountinfo,
    used_bytes,
)

HYBRID = """\
24 1 0:5 / /dev rw - devtmpfs udev rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:12 master:3 - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""


def tree(root: Path, files: dict[str, str]) -> Path:
    """A fake machine: each path below ``root`` with its text."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def places(root: Path, controller: str = "memory") -> list[str]:
    return [level.path.relative_to(root).as_posix() for level in levels(root=root, controller=controller)]


def test_each_controller_of_a_v1_line_gets_the_path() -> None:
    assert parse_cgroup("1:cpu,cpuacct:/a\n") == {"cpu": "/a", "cpuacct": "/a"}


def test_the_v2_line_is_the_nameless_controller() -> None:
    assert parse_cgroup("0::/user.slice/x.scope\n") == {"": "/user.slice/x.scope"}


def test_a_path_keeps_its_colons() -> None:
    assert parse_cgroup("0::/job:7:a\n") == {"": "/job:7:a"}


@pytest.mark.parametrize("junk", ["", "\n\n", "0:", "0::", "x::/a", "0::relative", "4:memory", "\x00\xff"])
def test_a_broken_cgroup_line_is_left_out(junk: str) -> None:
    assert parse_cgroup(junk) == {}


def test_only_cgroup_mounts_are_listed_with_their_controllers() -> None:
    assert parse_mountinfo(HYBRID) == (
        Mount(version=V1, root="/", point="/sys/fs/cgroup/cpu,cpuacct", controllers=("rw", "cpu", "cpuacct")),
        Mount(version=V1, root="/", point="/sys/fs/cgroup/memory", controllers=("rw", "memory")),
        Mount(version=V1, root="/", point="/sys/fs/cgroup/systemd", controllers=("rw", "name=systemd")),
        Mount(version=V2, root="/", point="/sys/fs/cgroup/unified"),
    )


def test_a_space_in_a_mount_is_unescaped() -> None:
    (mount,) = parse_mountinfo(r"41 31 0:38 /my\040job /cg\0402 rw - cgroup2 cgroup2 rw")
    assert (mount.root, mount.point) == ("/my job", "/cg 2")


@pytest.mark.parametrize("junk", ["", "41 31", "41 31 - cgroup2", "41 31 0:38 / /sys/fs", " - ", "a b c d e -"])
def test_a_truncated_mountinfo_line_is_left_out(junk: str) -> None:
    assert parse_mountinfo(junk) == ()


@pytest.mark.parametrize(
    ("path", "mount_root", "inside"),
    [
        ("/", "/", "."),
        ("/a/b", "/", "a/b"),
        ("/docker/ab", "/docker/ab", "."),
        ("/docker/ab/job", "/docker/ab", "job"),
        ("/../sibling/job", "/..", "sibling/job"),
        ("/docker/abc", "/docker/ab", None),  # a longer name, not a child
        ("/../..", "/", None),
        ("/", "/../..", None),
        ("/../../x", "/..", None),
    ],
)
def test_a_path_is_placed_below_the_mounted_root(path: str, mount_root: str, inside: str | None) -> None:
    found = below(path, mount_root)
    assert (None if found is None else str(found)) == inside


def test_levels_climb_from_the_leaf_to_the_mount(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
        },
    )
    assert places(tmp_path) == ["sys/fs/cgroup/a/b", "sys/fs/cgroup/a", "sys/fs/cgroup"]


def test_a_hybrid_machine_has_levels_in_both_trees(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/job\n1:cpu,cpuacct:/\n0::/x\n",
            "proc/self/mountinfo": HYBRID,
            "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/unified/x/cgroup.procs": "",
        },
    )
    unified = ["sys/fs/cgroup/unified/x", "sys/fs/cgroup/unified"]
    assert places(tmp_path) == [*unified, "sys/fs/cgroup/memory/job", "sys/fs/cgroup/memory"]
    assert places(tmp_path, "cpu") == [*unified, "sys/fs/cgroup/cpu,cpuacct"]


def test_another_container_s_mounted_cgroup_is_not_ours(tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/docker/ab\n",
            "proc/self/mountinfo": "1 0 0:1 /docker/zz /other rw - cgroup2 cgroup2 rw\n"
            "2 0 0:1 /docker/ab /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "other/memory.max": "1\n",
            "sys/fs/cgroup/memory.max": "2\n",
        },
    )
    assert places(tmp_path) == ["sys/fs/cgroup"]


def test_the_same_directory_mounted_twice_is_one_level(tmp_path: Path) -> None:
    line = "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    tree(tmp_path, {"proc/self/mountinfo": line * 2, "sys/fs/cgroup/memory.max": "1\n"})
    assert places(tmp_path) == ["sys/fs/cgroup"]


def test_the_usual_places_are_tried_without_mountinfo(tmp_path: Path) -> None:
    tree(tmp_path, {"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1\n"})
    assert places(tmp_path) == ["sys/fs/cgroup/a", "sys/fs/cgroup"]


def test_an_empty_machine_has_no_levels(tmp_path: Path) -> None:
    assert levels(root=tmp_path, controller="memory") == ()


def test_held_memory_is_usage_less_the_file_cache(tmp_path: Path) -> None:
    stat = "anon 600\nfile 400\nshmem 50\ninactive_file 200\nactive_file 150\n"
    tree(tmp_path, {"memory.current": "1000\n", "memory.stat": stat})
    assert used_bytes(Level(version=V2, path=tmp_path, is_leaf=True)) == 650


def test_v1_counts_the_cache_of_child_cgroups_too(tmp_path: Path) -> None:
    stat = "inactive_file 1\nactive_file 1\ntotal_inactive_file 300\ntotal_active_file 100\n"
    tree(tmp_path, {"memory.usage_in_bytes": "1000\n", "memory.stat": stat})
    assert used_bytes(Level(version=V1, path=tmp_path, is_leaf=True)) == 600


def test_held_memory_is_never_negative(tmp_path: Path) -> None:
    tree(tmp_path, {"memory.current": "10\n", "memory.stat": "inactive_file 20\n"})
    assert used_bytes(Level(version=V2, path=tmp_path, is_leaf=True)) == 0


def test_held_memory_is_unknown_without_a_usage_file(tmp_path: Path) -> None:
    assert used_bytes(Level(version=V2, path=tmp_path, is_leaf=True)) is None


@pytest.mark.parametrize(
    ("text", "quota"),
    [
        ("max 100000\n", None),
        ("150000 100000\n", 1.5),
        ("150000\n", None),
        ("1 0", None),
        ("", None),
        ("x y", None),
    ],
)
def test_a_v2_cpu_quota_is_a_number_of_cpus(tmp_path: Path, text: str, quota: float | None) -> None:
    tree(tmp_path, {"cpu.max": text})
    assert cpu_quota(Level(version=V2, path=tmp_path, is_leaf=True)) == quota


@pytest.mark.parametrize(("text", "quota"), [("-1\n", None), ("250000\n", 2.5)])
def test_a_v1_cpu_quota_is_a_number_of_cpus(tmp_path: Path, text: str, quota: float | None) -> None:
    tree(tmp_path, {"cpu.cfs_quota_us": text, "cpu.cfs_period_us": "100000\n"})
    assert cpu_quota(Level(version=V1, path=tmp_path, is_leaf=True)) == quota
