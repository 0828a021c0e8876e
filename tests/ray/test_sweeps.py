"""Sweeps on a cluster: the truth of one machine, and no fault that loses a point or leaves a process."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
from sweeping import Gate, command, ended, is_gone, opened, sweep, until, workers

from rlmem.cli import run
from rlmem.runner.store import FILE_NAME, open_store
from rlmem.units import GIB, MIB
from rlmem.version import __version__

#: What a node gives away: room for one dry run or point.
NODE = {"num_cpus": 1, "memory": 2 * GIB, "object_store_memory": 80 * MIB}


@pytest.fixture(scope="module")
def nodes(ray_folder: Path) -> Iterator[Any]:
    """Two nodes with room for a point each; the head has none."""
    from conftest import started

    with started(ray_folder, num_cpus=0, object_store_memory=80 * MIB) as made:
        made.kept = [made.add_node(**NODE) for _ in range(2)]
        made.wait_for_nodes()
        yield made


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Where the points of a test report."""
    with opened(tmp_path / "g") as made:
        yield made


def on(cluster: Any) -> tuple[str, ...]:
    return ("--on", "ray", "--address", cluster.address)


def kept(data: Path) -> dict[Any, Any]:
    """The points in the store, by size."""
    with open_store(data / FILE_NAME) as store:
        return {row.values["size"]: row for run_ in store.runs() for row in store.points(run_.id)}


def rows(out: str) -> dict[int, dict[str, Any]]:
    return {row["values"]["size"]: row for row in json.loads(out)["points"]}


@pytest.mark.long
def test_a_killed_worker_costs_a_try_leaves_no_process_and_changes_no_number(
    nodes: Any, gate: Gate, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.hold(32)
    process = command(*sweep(gate, [32], *on(nodes)), data=tmp_path)
    held = gate.held(32)
    until(lambda: len(workers()) == 1, "the end of the dry run's worker")
    (worker,) = workers()
    worker.kill()
    until(lambda: is_gone(held), "the end of what the worker had started")
    gate.release()
    code, out, _ = ended(process)
    row = rows(out)[32]
    assert (code, row["status"]) == (0, "ok")
    assert row["note"].startswith("measured again after its worker was killed, or crashed on ")
    assert not list(tmp_path.glob("g.*"))  # what the killed one wrote is put away too
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path / "here"))
    assert run(list(sweep(gate, [32]))) == 0
    here = rows(capsys.readouterr().out)[32]
    assert row["peak_bytes"] == pytest.approx(here["peak_bytes"], rel=0.03)
    assert row["predicted"]["expected"] == pytest.approx(here["predicted"]["expected"], rel=0.03)


@pytest.mark.long
def test_a_killed_keeper_takes_what_it_measured_with_it_and_the_point_is_measured_again(
    nodes: Any, gate: Gate, tmp_path: Path
) -> None:
    gate.hold(33)
    process = command(*sweep(gate, [33], *on(nodes)), data=tmp_path)
    held = gate.held(33)
    (keeper,) = (each for each in psutil.Process(held).parents() if "rlmem.ray.keeper" in " ".join(each.cmdline()))
    folder = Path(keeper.environ()["TMPDIR"])
    assert list(tmp_path.glob("g.*")) and list(folder.glob("rlmem-job-*"))
    keeper.kill()
    until(lambda: is_gone(held), "the end of what the keeper had started")
    until(lambda: not folder.exists(), "the end of what it worked in")
    assert not list(tmp_path.glob("g.*"))  # its worker has put back what it could not
    gate.release()
    code, out, _ = ended(process)
    row = rows(out)[33]
    assert (code, row["status"]) == (0, "ok")
    assert row["note"].startswith("measured again after the process that measured it was killed on ")


def test_a_killed_point_and_one_that_fits_no_node_are_rows_and_the_others_run(
    nodes: Any, gate: Gate, tmp_path: Path
) -> None:
    gate.hold(32)
    process = command(*sweep(gate, [32, 48, 4096], *on(nodes)), data=tmp_path)
    psutil.Process(gate.held(32)).kill()
    code, out, err = ended(process)
    found = rows(out)
    assert [row["status"] for row in found.values()] == ["killed", "ok", "failed"]
    assert found[4096]["note"].startswith("not started: needs 4.")
    assert " by the plan, 160 MiB for Ray's worker beside it), and the largest node, " in found[4096]["note"]
    assert found[4096]["predicted"]["expected"] > 4 * GIB
    assert [len(gate.pids(size)) for size in (32, 48, 4096)] == [2, 2, 1]  # a dry run each, then the point
    assert code == 1 and "Traceback" not in err


def test_ctrl_c_cancels_what_runs_there_and_keeps_what_is_finished(nodes: Any, gate: Gate, tmp_path: Path) -> None:
    gate.hold(64)
    process = command(*sweep(gate, [32, 64], *on(nodes)), data=tmp_path)
    held = gate.held(64)
    until(lambda: list(kept(tmp_path)) == [32], "the first point in the store")
    process.send_signal(signal.SIGINT)
    code, out, err = ended(process)
    assert (code, out) == (130, "")
    assert "rlmem: interrupted; 1 of 2 points are kept in run " in err
    until(lambda: is_gone(held) and not workers(), "the end of everything there")
    until(lambda: not list(tmp_path.glob("g.*")), "the end of what it wrote")  # the keeper undoes it after the process


@pytest.mark.long
def test_after_a_killed_driver_the_same_command_measures_what_is_missing(
    nodes: Any, gate: Gate, tmp_path: Path
) -> None:
    gate.hold(64)
    words = sweep(gate, [32, 64], *on(nodes))
    process = command(*words, data=tmp_path)
    held = gate.held(64)
    until(lambda: list(kept(tmp_path)) == [32], "the first point in the store")
    process.kill()
    process.communicate()
    until(lambda: is_gone(held) and not workers(), "the end of what nobody waits for")
    gate.release()
    code, out, err = ended(command(*words, data=tmp_path))
    assert code == 0
    assert "1 of 2 points are known" in err
    assert [row["status"] for row in rows(out).values()] == ["ok", "ok"]
    assert (len(gate.pids(32)), len(gate.pids(64))) == (2, 4)
    with open_store(tmp_path / FILE_NAME) as store:
        assert [run_.status for run_ in store.runs()] == ["ok"]  # it went on with the same run


def test_another_rlmem_on_a_node_is_a_row_that_says_both_versions(nodes: Any, gate: Gate, tmp_path: Path) -> None:
    other = "import rlmem.version; rlmem.version.__version__ = '0.0.1'"
    code, out, _ = ended(command(*sweep(gate, [32], *on(nodes)), data=tmp_path, prelude=other))
    row = rows(out)[32]
    assert (code, row["status"]) == (1, "failed")
    assert row["note"] == f"rlmem {__version__} is installed on this node, and 0.0.1 asks; install the same everywhere"


@pytest.mark.parametrize(
    "other", ["import ray; ray.__version__ = '2.51.0'", "import sys; sys.version_info = (3, 9, 1, 'final', 0)"]
)
def test_another_ray_or_python_than_the_cluster_s_is_one_line(
    nodes: Any, gate: Gate, tmp_path: Path, other: str
) -> None:
    prelude = f"import rlmem.cli.measure, ray\n{other}"
    code, out, err = ended(command(*sweep(gate, [32], *on(nodes)), data=tmp_path, prelude=prelude))
    assert (code, out) == (3, "")
    (line,) = err.splitlines()
    assert line.startswith(f"rlmem: Ray at {nodes.address}: ")
    assert line.endswith("use the cluster's versions of Ray and Python here")
    assert ("2.51.0" in line) or ("3.9.1" in line)


@pytest.mark.parametrize(
    ("address", "code", "why"),
    [
        ("127.0.0.1:1", 3, "Connection refused"),
        ("no-such-host.invalid:6379", 3, "cannot be reached"),
        ("ray://127.0.0.1:1", 3, "Connection refused"),
        ("nonsense", 2, "Invalid address format"),
    ],
)
def test_a_wrong_address_is_one_line(
    address: str,
    code: int,
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path))
    for words in (["measure", "drone-swarm"], ["bench", "pidog-sac", "--timesteps", "10"]):
        assert run([*words, "--on", "ray", "--address", address]) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"rlmem: Ray at {address}")
        assert why in line
    with open_store(tmp_path / FILE_NAME) as store:
        assert not store.runs()


def test_points_are_stored_as_they_come_and_a_lost_node_loses_none(nodes: Any, gate: Gate, tmp_path: Path) -> None:
    """The last one of this cluster: it takes a node away."""
    gate.hold(64)
    process = command(*sweep(gate, [32, 48, 64], *on(nodes)), data=tmp_path)
    held = gate.held(64)
    until(lambda: len(kept(tmp_path)) == 2, "the others in the store")
    until(lambda: len(busy(nodes)) == 1, "the end of the last worker of the others")  # it keeps its title for a moment
    (lost,) = busy(nodes)
    nodes.remove_node(lost, allow_graceful=False)
    until(lambda: is_gone(held), "the end of what ran on the lost node")
    gate.release()
    code, out, err = ended(process)
    found = rows(out)
    assert err.splitlines()[0] == f"rlmem: measuring on Ray {ray.__version__}, 3 nodes, 2 CPUs"
    assert (code, {row["status"] for row in found.values()}) == (0, {"ok"})
    assert found[64]["note"].startswith("measured again after its node died on ")
    assert found[64]["node"] not in found[64]["note"]
    assert [len(gate.pids(size)) for size in (32, 48, 64)] == [2, 2, 3]


def busy(nodes: Any) -> list[Any]:
    """Nodes on which something is measured."""
    return [node for node in nodes.kept if workers(raylet(node))]


def raylet(node: Any) -> int:
    """The process of a node."""
    (info,) = node.all_processes["raylet"]
    return int(info.process.pid)
