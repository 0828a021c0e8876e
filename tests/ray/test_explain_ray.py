"""``rlmem explain --ray`` of real clusters: node, actor, owner; what is not there any more is a line and never a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import psutil
import pytest
import ray

from rlmem.app.explain_cluster import cluster_document
from rlmem.cluster.holdings import ClusterHoldings
from rlmem.documents.cluster import ClusterDocument
from rlmem.documents.contract import from_plain, to_plain
from rlmem.process.processes import read_process
from rlmem.ray.actors import read_tables
from rlmem.ray.looking import _read
from rlmem.ray.probing import probe_once, probes
from rlmem.ray.stores import Store
from rlmem.units import MIB

#: Long enough for workers to start on a busy machine; nothing is decided by it but that a test ends.
PATIENCE_S = 240
#: The command's own patience decides nothing here either.
PATIENT = ("--timeout", "60", "--deadline", "110")
NAMING = {"worker_process_setup_hook": "rlmem.ray.naming.start"}


#: An experiment that goes on until it is told to stop.
TRAIN = """
import sys
from pathlib import Path
import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPO, PPOConfig

address, folder = sys.argv[1], Path(sys.argv[2])
ray.init(address=address, log_to_driver=False)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=2)
    .learners(num_learners=1)
    .evaluation(evaluation_num_env_runners=1, evaluation_interval=1, evaluation_duration=1)
    .training(train_batch_size_per_learner=200, minibatch_size=100, num_epochs=1)
)

def stop(trial_id, result):
    (folder / "part").write_text(trial_id)
    (folder / "part").rename(folder / "ready")
    return (folder / "stop").exists()

tune.Tuner(PPO, param_space=config, run_config=tune.RunConfig(stop=stop, storage_path=str(folder), verbose=0)).fit()
"""


@ray.remote(num_cpus=0)
class Keeper:
    """Holds an array of its own, and what it is given."""

    def __init__(self, mib: int) -> None:
        self.frames = np.ones(mib * 2**17)
        self.seen: Any = None

    def see(self, given: Any) -> int:
        self.seen = given
        return os.getpid()

    def start_child(self) -> int:
        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        return self.child.pid


Remote: Any = Keeper


@pytest.fixture(scope="module")
def two(cluster: Any) -> Iterator[Any]:
    """A head and a node; workers have the agent."""
    cluster.add_node(num_cpus=2, object_store_memory=200 * MIB, resources={"second": 10})
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error", runtime_env=NAMING)
    yield cluster


def keepers(*mib: int, **options: Any) -> list[Any]:
    """Actors on the second node."""
    return [Remote.options(resources={"second": 1}, **options).remote(each) for each in mib]


def command(*arguments: str, cluster: Any = None) -> subprocess.CompletedProcess[str]:
    address = ["--address", cluster.address] if cluster is not None else []
    return subprocess.run(
        [sys.executable, "-m", "rlmem", "explain", "--ray", *address, *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def rollup(pid: int) -> dict[str, int]:
    """What the kernel says itself."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {name: int(size) * 1024 for name, size in re.findall(r"^(\w+): +(\d+) kB", text, re.MULTILINE)}


def plasma(pid: int) -> int:
    """PSS of the object store's mappings, read apart from the code under test."""
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text(), flags=re.MULTILINE)
    sizes = [re.findall(r"^Pss: +(\d+)", part, re.MULTILINE) for part in parts if "/plasma" in part]
    return sum(int(size) * 1024 for (size,) in sizes)


def kernel(pid: int) -> tuple[int, int] | None:
    """PSS of a process and of the object store in it; None when it has ended, as workers that wait do."""
    try:
        return rollup(pid)["Pss"], plasma(pid)
    except (OSError, KeyError):  # of a process that is just ending, the kernel's files are empty
        return None


def by_pid(found: ClusterHoldings) -> dict[int, Any]:
    return {each.pid: each for each in found.processes}


def eventually(check: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < end
        time.sleep(0.05)


def our_probes() -> set[int]:
    """Processes of probes, on this machine."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(word.startswith("ray::Probe") for word in process.cmdline()):
                found.add(process.pid)
    return found


@pytest.fixture(scope="module")
def held(two: Any) -> Iterator[list[int]]:
    """Three actors that were given one object of 60 MiB: two on the second node, one on the head."""
    shared = ray.put(np.ones(60 * 2**17))
    actors = [*keepers(50, 30), Remote.options(name="left", resources={"node:__internal_head__": 0.1}).remote(20)]
    yield ray.get([actor.see.remote(shared) for actor in actors], timeout=PATIENCE_S)
    for actor in actors:
        ray.kill(actor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What the command said, and what the kernel said right afterwards."""

    document: dict[str, Any]
    page: str
    probes_left: list[int]
    pss: dict[int, int]
    plasma: dict[int, int]

    def process(self, pid: int) -> dict[str, Any]:
        return next(each for node in self.document["nodes"] for each in node["processes"] if each["pid"] == pid)


@pytest.fixture(scope="module")
def looked(two: Any, held: list[int], tmp_path_factory: pytest.TempPathFactory) -> Look:
    page = tmp_path_factory.mktemp("page") / "cluster.html"
    before = our_probes()
    answer = command("--json", "--html", str(page), *PATIENT, cluster=two)
    assert answer.returncode == 0, answer.stderr
    eventually(lambda: not our_probes() - before)  # the actors are killed; their processes take a moment to end
    document = to_plain(from_plain(ClusterDocument, json.loads(answer.stdout), "stdout"))
    pids = [each["pid"] for node in document["nodes"] for each in node["processes"]]
    kernels = {pid: pair for pid in pids if (pair := kernel(pid)) is not None}
    return Look(
        document=document,
        page=page.read_text(),
        probes_left=sorted(our_probes() - before),
        pss={pid: pss for pid, (pss, _) in kernels.items()},
        plasma={pid: store for pid, (_, store) in kernels.items()},
    )


def test_actors_are_on_their_nodes_with_their_names(looked: Look, held: list[int]) -> None:
    head, second = looked.document["nodes"]
    assert looked.document["complete"]
    assert (head["is_head"], second["is_head"]) == (True, False)
    on = {each["pid"]: node["node_id"] for node in (head, second) for each in node["processes"]}
    assert [on[pid] for pid in held] == [second["node_id"], second["node_id"], head["node_id"]]
    assert {looked.process(pid)["role"] for pid in held} == {"Keeper"}
    assert [looked.process(pid)["actor_name"] for pid in held] == [None, None, "left"]


def test_owners_have_names_and_what_lies_in_the_store_is_not_the_actors_own(looked: Look, held: list[int]) -> None:
    for pid, mib in zip(held, (50, 30, 20), strict=True):
        process = looked.process(pid)
        owners = {each["path"]: each for each in process["holdings"]}
        assert process["way"] == "agent", process["notes"]
        assert owners["self.frames"]["resident_bytes"] == pytest.approx(mib * MIB, rel=0.01)
        assert owners["self.frames"]["file"] == ""
        seen = owners["self.seen"]
        assert (seen["file"], seen["growth_bytes"]) == ("object-store", 0)
        assert seen["nbytes"] == pytest.approx(60 * MIB, rel=0.01)
        assert mib * MIB < process["uss_bytes"] <= process["heap_bytes"] < (mib + 150) * MIB


def test_one_object_counts_once_on_each_node_whoever_has_it_mapped(looked: Look) -> None:
    head, second = looked.document["nodes"]
    for node in (head, second):
        assert node["store"]["resident_bytes"] == pytest.approx(60 * MIB, rel=0.05)
        shares = sum(each["store_bytes"] for each in node["processes"])
        assert shares == pytest.approx(node["store"]["resident_bytes"], rel=0.02)
    assert head["store"]["primary_bytes"] == pytest.approx(60 * MIB, rel=0.01)
    assert second["store"]["primary_bytes"] == 0  # a copy, which may go


def test_sums_are_the_kernels_own(looked: Look, held: list[int]) -> None:
    document = looked.document
    said = {each["pid"]: each for node in document["nodes"] for each in node["processes"]}
    assert {os.getpid(), *held} <= looked.pss.keys()  # workers that waited may be gone, however many
    for pid, pss in looked.pss.items():
        # When the probes have ended, their share of the libraries is the others' again.
        assert said[pid]["pss_bytes"] == pytest.approx(pss, rel=0.05, abs=8 * MIB)
        assert said[pid]["store_bytes"] == pytest.approx(looked.plasma[pid], abs=MIB)
        # What would come back without it: of the store, nothing, whoever alone has its pages.
        assert said[pid]["uss_bytes"] <= said[pid]["heap_bytes"]
    kernels = sum(looked.pss.values())
    assert sum(said[pid]["pss_bytes"] for pid in looked.pss) == pytest.approx(kernels, rel=0.05)
    for node in document["nodes"]:
        heaps = sum(each["heap_bytes"] for each in node["processes"])
        assert node["pss_bytes"] == heaps + node["store"]["resident_bytes"]
    assert document["pss_bytes"] == sum(node["pss_bytes"] for node in document["nodes"])
    assert sum(row["heap_bytes"] for row in document["roles"]) == document["pss_bytes"]


def test_who_asks_is_nobody_and_nothing_of_it_is_left(looked: Look) -> None:
    processes = [each for node in looked.document["nodes"] for each in node["processes"]]
    assert [each["pid"] for each in processes if each["role"] == "driver"] == [os.getpid()]
    assert not [each for each in processes if "rlmem explain" in each["command"] or "ray::Probe" in each["command"]]
    assert looked.probes_left == []
    alive = [each["class_name"] for each in read_tables()["actors"]]
    assert "Keeper" in alive and not [name for name in alive if name.endswith("Probe")]


def test_the_page_is_one_file_with_nodes_actors_and_owners(looked: Look, held: list[int]) -> None:
    assert looked.page.startswith("<!doctype html>")
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", looked.page)
    second = looked.document["nodes"][1]["node_id"][:6]
    assert all(word in looked.page for word in ("self.frames", "Keeper", str(held[0]), second))


def test_an_actors_child_has_its_role_and_a_killed_actor_is_gone(two: Any) -> None:
    (actor,) = keepers(5, name="parent")
    pid = ray.get(actor.see.remote(None), timeout=PATIENCE_S)
    child = ray.get(actor.start_child.remote(), timeout=PATIENCE_S)
    try:
        with probes(ray, deadline_s=PATIENCE_S) as made:
            found = by_pid(made.ask())
            assert (found[pid].role, found[pid].parent) == ("Keeper", None)
            assert (found[child].role, found[child].parent, found[child].actor_name) == ("Keeper", pid, "parent")
            os.kill(pid, signal.SIGKILL)
            os.kill(child, signal.SIGKILL)
            psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=PATIENCE_S)
            later = made.ask(names=True)
            assert pid not in by_pid(later)
            assert later.is_complete
    finally:
        ray.kill(actor)


def test_a_process_that_ended_after_the_table_was_read_is_left_out() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    process = read_process(child.pid)
    assert process is not None
    child.kill()
    child.wait()
    for names in (True, False):
        assert _read(process, Store(), names=names, timeout_s=1.0, root="/proc") is None


def test_an_actor_that_cannot_answer_is_told_by_class(two: Any) -> None:
    (actor,) = keepers(40)
    pid = ray.get(actor.see.remote(None), timeout=PATIENCE_S)
    os.kill(pid, signal.SIGSTOP)
    try:
        found = by_pid(probe_once(ray, names=True, deadline_s=PATIENCE_S, timeout_s=1.0))[pid]
        assert found.way == "pages"
        assert any("stopped" in note for note in found.notes)
        assert found.heap_bytes > 40 * MIB
    finally:
        os.kill(pid, signal.SIGCONT)
        ray.kill(actor)


def test_a_node_that_does_not_answer_is_a_row_after_the_deadline(two: Any) -> None:
    before = our_probes()
    with probes(ray, deadline_s=PATIENCE_S) as made:
        assert made.ask().is_complete
        made._deadline_s = 10.0  # the head is asked within it too
        on_head = raylet_pid(two.head_node)
        (second,) = [psutil.Process(pid) for pid in our_probes() - before if psutil.Process(pid).ppid() != on_head]
        second.suspend()
        try:
            found = made.ask()
        finally:
            second.resume()
    (late,) = [each for each in found.nodes if each.problem]
    assert (late.is_head, late.problem) == (False, "no answer within 10 s")
    assert next(each for each in found.nodes if each.is_head).pss_bytes


def raylet_pid(node: Any) -> int:
    pid: int = node.all_processes["raylet"][0].process.pid
    return pid


def test_a_full_store_is_told_with_what_was_spilled_and_what_found_no_place(two: Any) -> None:
    """Objects that somebody reads cannot leave the store: new ones get files of their own on the disk."""
    references = [ray.put(np.ones(40 * 2**17)) for _ in range(8)]
    read = [ray.get(reference) for reference in references[2:]]
    assert all(each.sum() == 40 * 2**17 for each in read)  # and so every page is in memory
    head = next(each for each in probe_once(ray, deadline_s=PATIENCE_S).nodes if each.is_head)
    driver = next(each for each in head.processes if each.pid == os.getpid())
    assert head.store.capacity_bytes == 200 * MIB
    assert any("in files on a disk" in note for note in head.notes)
    assert (head.store.spilled_bytes or 0) >= 40 * MIB
    assert (head.store.resident_bytes or 0) >= 6 * 40 * MIB
    shares = sum(each.store_bytes or 0 for each in head.processes)
    assert shares == pytest.approx(head.store.resident_bytes, rel=0.02)
    assert (driver.store_bytes or 0) == pytest.approx(plasma(os.getpid()), rel=0.02)
    own = rollup(os.getpid())["Pss"] - plasma(os.getpid())
    assert (driver.heap_bytes or 0) == pytest.approx(own, abs=40 * MIB)  # it has imported more since


@pytest.mark.long
def test_a_node_that_dies_while_it_is_asked_is_a_row(two: Any) -> None:
    node = two.add_node(num_cpus=1, object_store_memory=80 * MIB)
    before = our_probes()
    with probes(ray, deadline_s=PATIENCE_S) as made, ThreadPoolExecutor(1) as pool:
        assert len(made.ask().nodes) == 3
        raylet = raylet_pid(node)
        (there,) = [psutil.Process(pid) for pid in our_probes() - before if psutil.Process(pid).ppid() == raylet]
        there.suspend()  # so that it is being asked when its node dies
        asked = pool.submit(made.ask, names=True)
        two.remove_node(node, allow_graceful=False)
        there.kill()
        found = asked.result(PATIENCE_S)
    dead = [each for each in found.nodes if each.problem]
    assert [each.node_id for each in dead] == [node.node_id]
    assert dead[0].problem == "the node or our probe on it died while it was asked"
    assert (dead[0].processes, dead[0].pss_bytes, found.is_complete) == ((), None, False)
    assert found.pss_bytes == sum(each.pss_bytes or 0 for each in found.nodes if not each.problem)
    document = cluster_document(found)
    assert from_plain(ClusterDocument, to_plain(document), "document") == document


@pytest.mark.long
def test_rllibs_actors_have_roles_and_their_trial(own_cluster: Any, tmp_path: Path) -> None:
    """Tune runs PPO with two env runners, one that evaluates and a learner, on two nodes."""
    program = tmp_path / "train.py"
    program.write_text(TRAIN)
    with own_cluster(num_cpus=3) as cluster:
        cluster.add_node(num_cpus=8, object_store_memory=200 * MIB)
        log = tmp_path / "log"
        with log.open("w") as file:
            run = subprocess.Popen(
                [sys.executable, str(program), cluster.address, str(tmp_path)], stdout=file, stderr=file
            )
        try:
            eventually(lambda: (tmp_path / "ready").exists() or run.poll() is not None)
            assert run.poll() is None, log.read_text()
            answer = command("--json", *PATIENT, cluster=cluster)
            assert answer.returncode == 0, answer.stderr
            (tmp_path / "stop").touch()
            run.wait(PATIENCE_S)
        finally:
            run.kill()
    processes = [each for node in json.loads(answer.stdout)["nodes"] for each in node["processes"]]
    roles = Counter(each["role"] for each in processes if each["trial"])
    assert roles == {"trial": 1, "env-runner": 2, "eval-env-runner": 1, "learner": 1}
    (trial,) = {each["trial"] for each in processes if each["trial"]}
    assert trial == (tmp_path / "ready").read_text()
    assert [each["pid"] for each in processes if each["role"] == "driver"] == [run.pid]
    assert all(each["heap_bytes"] > 100 * MIB for each in processes if each["trial"])


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "nonsense"])
def test_a_wrong_address_is_one_line(address: str) -> None:
    answer = command("--address", address)
    assert answer.returncode in {2, 3}
    assert answer.stdout == ""
    (line,) = answer.stderr.strip().splitlines()
    assert line.startswith("rlmem: ") and address in line


def test_somebody_else_at_the_address_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=lambda: server.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), daemon=True).start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        answer = command("--address", address)
    assert (answer.returncode, answer.stdout) == (3, "")
    (line,) = answer.stderr.strip().splitlines()
    assert line.startswith(f"rlmem: Ray at {address} cannot be reached: what listens there is not Ray")
