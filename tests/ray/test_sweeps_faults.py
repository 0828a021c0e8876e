"""Sweeps on nodes that lack something: memory, a place for objects, a limit that Ray knows of; each a row or a clear line."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from ray._private.utils import get_ray_client_dependency_error, get_system_memory, get_used_memory
from sweeping import Gate, command, ended, is_gone, opened, sweep, until

from rlmem.runner.store import FILE_NAME, open_store
from rlmem.units import GIB, MIB

STORE = {"object_store_memory": 80 * MIB}
LOCAL = ("--on", "ray", "--address", "local")
CGROUPS = Path("/sys/fs/cgroup/memory")


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Where the points of a test report."""
    with opened(tmp_path / "g") as made:
        yield made


def rows(out: str) -> dict[int, dict[str, Any]]:
    return {row["values"]["size"]: row for row in json.loads(out)["points"]}


@pytest.mark.long
def test_a_kill_by_the_memory_monitor_is_told_from_a_crash(
    own_cluster: Callable[..., Any], gate: Gate, tmp_path: Path
) -> None:
    threshold = (get_used_memory() + 3 * GIB) / get_system_memory()
    if threshold > 0.85:
        pytest.skip("too little memory is free for this")
    config = {"memory_usage_threshold": threshold, "memory_monitor_refresh_ms": 100}
    with own_cluster(num_cpus=1, memory=3 * GIB, _system_config=config, **STORE) as made:
        words = (*sweep(gate, [32], "--on", "ray", "--address", made.address, "--cap", "12GiB"), "--greedy", "8000")
        code, out, _ = ended(command(*words, data=tmp_path))
    row = rows(out)[32]
    assert (code, row["status"], row["peak_bytes"]) == (1, "oom", None)
    assert row["note"].startswith("killed by Ray's memory monitor on ")
    assert "not by a crash: " in row["note"]
    assert " were in use there" in row["note"]
    until(lambda: is_gone(gate.pids(32)[-1]), "the end of what took the memory")


@pytest.mark.long
@pytest.mark.parametrize(("words", "seen"), [((), ""), (("--set", "device=cuda"), "0")])
def test_a_point_sees_the_gpu_that_it_asked_for_and_no_other(
    own_cluster: Callable[..., Any], gate: Gate, tmp_path: Path, words: tuple[str, ...], seen: str
) -> None:
    """A GPU that only Ray knows of: what a loop without torch would do with it nobody can tell, but --set can."""
    gate.hold(32)
    with own_cluster(num_cpus=1, num_gpus=1, memory=2 * GIB, **STORE) as made:
        run = sweep(gate, [32], *words, "--on", "ray", "--address", made.address)
        process = command(*run, data=tmp_path)
        held = psutil.Process(gate.held(32)).environ()
        gate.release()
        code, out, _ = ended(process)
    assert (code, rows(out)[32]["status"], held["CUDA_VISIBLE_DEVICES"]) == (0, "ok", seen)


@pytest.mark.long
def test_a_full_object_store_that_spills_loses_no_point(
    own_cluster: Callable[..., Any], gate: Gate, tmp_path: Path
) -> None:
    with own_cluster(num_cpus=2, memory=4 * GIB, **STORE) as made:
        ray.init(address=made.address, log_to_driver=False, logging_level="error")
        full = [ray.put(os.urandom(30 * MIB)) for _ in range(8)]  # three times what there is room for
        process = command(*sweep(gate, [32, 48], "--on", "ray", "--address", made.address), data=tmp_path)
        code, out, _ = ended(process)
        assert len(ray.get(full[0])) == 30 * MIB
        del full
    assert (code, [row["status"] for row in rows(out).values()]) == (0, ["ok", "ok"])


@pytest.mark.long
def test_a_small_dev_shm_loses_no_point(gate: Gate, tmp_path: Path) -> None:
    """16 MiB; Docker gives 64."""
    alone = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"', "sh"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces are not allowed here")
    code, out, _ = ended(command(*sweep(gate, [32], *LOCAL), data=tmp_path, before=alone))
    assert (code, rows(out)[32]["status"]) == (0, "ok")


@pytest.fixture
def limited() -> Iterator[Path]:
    """A cgroup of 2 GiB."""
    path = CGROUPS / f"rlmem-test-{uuid.uuid4().hex[:8]}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(2 * GIB))
    except OSError:
        pytest.skip("no cgroups of version 1 can be made here")
    yield path
    until(lambda: not (path / "cgroup.procs").read_text(), "the end of everything in the cgroup")
    path.rmdir()


@pytest.mark.long
def test_a_cluster_of_our_own_divides_what_its_cgroup_allows(limited: Path, gate: Gate, tmp_path: Path) -> None:
    inside = ["sh", "-c", f'echo $$ > {limited}/cgroup.procs && exec "$@"', "sh"]
    code, out, _ = ended(command(*sweep(gate, [32, 4096], *LOCAL), data=tmp_path, before=inside))
    found = rows(out)
    assert (code, found[32]["status"], found[4096]["status"]) == (1, "ok", "failed")
    assert "not started: needs 4." in found[4096]["note"]
    assert " has 1." in found[4096]["note"]  # GiB


@pytest.mark.long
def test_a_cgroup_that_ray_does_not_see_caps_the_point(
    own_cluster: Callable[..., Any], limited: Path, gate: Gate, tmp_path: Path
) -> None:
    """Ray looks at the machine, or at its container: a node in a cgroup of a batch system gives away more than it has."""
    with own_cluster(num_cpus=0, **STORE) as made:
        node = made.add_node(num_cpus=1, memory=8 * GIB, **STORE)
        (info,) = node.all_processes["raylet"]
        for pid in (info.process.pid, *(child.pid for child in children(info.process.pid))):
            (limited / "cgroup.procs").write_text(str(pid))
        words = sweep(gate, [32], "--on", "ray", "--address", made.address)
        code, out, _ = ended(command(*words, "--greedy", "3000", data=tmp_path))
    row = rows(out)[32]
    assert (code, row["status"]) == (1, "oom")
    assert row["peak_bytes"] < 2 * GIB


def children(pid: int) -> list[psutil.Process]:
    """Everything a process started."""
    return psutil.Process(pid).children(recursive=True)


@pytest.mark.long
def test_ctrl_c_in_a_terminal_ends_a_cluster_of_our_own_with_everything_in_it(gate: Gate, tmp_path: Path) -> None:
    gate.hold(32)
    process = command(*sweep(gate, [32], *LOCAL), data=tmp_path, start_new_session=True)
    held = gate.held(32)
    before = children(process.pid)
    assert any("raylet" in one.name() for one in before)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to everybody in the foreground
    code, _, err = ended(process)
    assert code == 130
    assert "rlmem: interrupted; no point was finished" in err
    until(lambda: is_gone(held) and all(is_gone(one.pid) for one in before), "the end of the cluster")
    with open_store(tmp_path / FILE_NAME) as store:
        assert not store.runs()


@pytest.mark.long
def test_a_lost_head_keeps_what_is_finished(own_cluster: Callable[..., Any], gate: Gate, tmp_path: Path) -> None:
    with own_cluster(num_cpus=1, memory=2 * GIB, **STORE) as made:
        gate.hold(48)
        words = sweep(gate, [32, 48], "--on", "ray", "--address", made.address)
        process = command(*words, data=tmp_path)
        held = gate.held(48)
        address = made.address
        made.remove_node(made.head_node, allow_graceful=False)
        code, _, err = ended(process)
    assert code == 3
    assert err.splitlines()[-1].startswith(
        f"rlmem: the head of the cluster at {address} went away; what was finished is kept"
    )
    until(lambda: is_gone(held), "the end of the point")
    with open_store(tmp_path / FILE_NAME) as store:
        (run_,) = store.runs()
        assert [row.values["size"] for row in store.points(run_.id)] == [32]
    gate.release()
    code, _, err = ended(command(*sweep(gate, [32, 48]), data=tmp_path))  # on this machine: the points are the same
    assert (code, "1 of 2 points are known" in err) == (0, True)


@pytest.mark.long
@pytest.mark.skipif(get_ray_client_dependency_error() is not None, reason="ray[client] is not installed")
def test_ray_s_own_client_measures_too_and_ctrl_c_cancels_there(
    own_cluster: Callable[..., Any], gate: Gate, tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with own_cluster(num_cpus=2, memory=4 * GIB, ray_client_server_port=port, **STORE):
        gate.hold(48)
        words = sweep(gate, [32, 48], "--on", "ray", "--address", f"ray://127.0.0.1:{port}")
        process = command(*words, data=tmp_path)
        held = gate.held(48)
        with open_store(tmp_path / FILE_NAME) as store:
            until(lambda: any(store.points(run_.id) for run_ in store.runs()), "the first point in the store")
        process.send_signal(signal.SIGINT)
        code, _, err = ended(process)
        assert (code, "1 of 2 points are kept" in err) == (130, True)
        until(lambda: is_gone(held), "the end of the point")
        gate.release()
        code, out, _ = ended(command(*words, data=tmp_path))
    assert (code, [row["status"] for row in rows(out).values()]) == (0, ["ok", "ok"])


@pytest.mark.long
def test_profiles_are_trained_on_nodes_and_one_that_fits_none_is_a_row(
    own_cluster: Callable[..., Any], tmp_path: Path
) -> None:
    profiles = tmp_path / "profiles.yaml"
    profiles.write_text("small: {buffer_size: 1000}\nwide: {batch_size: 200000}\n")
    with own_cluster(num_cpus=1, memory=2 * GIB, **STORE) as made:
        words = ("--profiles", str(profiles), "--timesteps", "8", "--env", "random", "--json")
        process = command("bench", "pidog-sac", *words, "--on", "ray", "--address", made.address, data=tmp_path)
        code, out, err = ended(process)
    small, wide = json.loads(out)["profiles"]
    assert (code, small["status"], wide["status"]) == (1, "ok", "failed"), err
    assert small["peak_bytes"] > 200 * MIB
    assert "not started: needs " in wide["note"]
    assert "wide: failed: not started: " in err
