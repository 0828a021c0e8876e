"""Who is who: roles of processes by Ray's tables, the trial of every actor, runners that evaluate; Ray need not be here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rlmem.cluster.holdings import NodeHoldings, ProcessHoldings
from rlmem.core.roles import is_rays_own, role_of, role_of_title, trial_of
from rlmem.process.processes import Process
from rlmem.ray.actors import Actor, Tables, Worker, tagged
from rlmem.ray.connecting import _explained
from rlmem.ray.looking import Known, _chosen
from rlmem.ray.probing import _primary, _why
from rlmem.ray.stores import StoreShare, store_share

TRIAL = "d9509_00000"


def actor(pid: int, class_name: str, **more: Any) -> Actor:
    given = {"actor_id": f"a{pid}", "node_id": "n", "pid": pid, "class_name": class_name, "worker": f"w{pid}"}
    return Actor(**{**given, **more})


def tags(tables: Tables, *processes: ProcessHoldings, **more: Any) -> dict[int, ProcessHoldings]:
    (found,) = tagged([NodeHoldings(node_id="n", processes=processes)], tables, **more)
    return {each.pid: each for each in found.processes}


def roles(tables: Tables, *processes: ProcessHoldings, **more: Any) -> dict[int, str]:
    return {pid: each.role for pid, each in tags(tables, *processes, **more).items()}


def seen(pid: int, command: str = "ray::X", **more: Any) -> ProcessHoldings:
    return ProcessHoldings(pid=pid, command=command, **more)


def test_processes_without_an_actor_are_told_by_ray_and_by_their_title() -> None:
    workers = (
        Worker(node_id="n", pid=1, kind="DRIVER", job="01000000"),
        Worker(node_id="n", pid=2, kind="SPILL_WORKER"),
        Worker(node_id="n", pid=3),
        Worker(node_id="n", pid=4),
    )
    processes = (
        seen(1, "python train.py"),
        seen(2),
        seen(3, "ray::IDLE"),
        seen(4, "ray::toil()"),
        seen(5, "raylet -x"),
    )
    assert roles(Tables(workers=workers), *processes) == {1: "driver", 2: "ray", 3: "idle", 4: "task", 5: "ray"}
    assert tags(Tables(workers=workers), *processes)[1].job == "01000000"


def test_a_child_has_the_role_of_who_started_it() -> None:
    tables = Tables(actors=(actor(1, "Judge", name="left"),), workers=(Worker(node_id="n", pid=5, kind="DRIVER"),))
    found = tags(tables, seen(1), seen(2, "sh", parent=1), seen(6, "sh", parent=5), seen(8, "sh", parent=7))
    assert {pid: each.role for pid, each in found.items()} == {1: "Judge", 2: "Judge", 6: "driver", 8: "task"}
    assert found[2].actor_name == "left"


def test_the_same_number_on_another_node_is_another_process() -> None:
    tables = Tables(actors=(actor(1, "Judge", node_id="other"),))
    assert roles(tables, seen(1, "ray::IDLE")) == {1: "idle"}


def test_actors_have_the_trial_of_their_folder_their_maker_or_their_placement_group() -> None:
    actors = (
        actor(1, "PPO", group="g"),
        actor(2, "SingleAgentEnvRunner", group="g"),
        actor(3, "Helper", owner="w1"),
        actor(4, "HelpersHelper", owner="w3"),
        actor(5, "Stranger", owner="w9"),
    )
    found = tags(Tables(actors=actors), seen(1, trial=TRIAL), *(seen(pid) for pid in (2, 3, 4, 5)))
    assert {pid: each.trial for pid, each in found.items()} == {1: TRIAL, 2: TRIAL, 3: TRIAL, 4: TRIAL, 5: None}
    assert (found[1].role, found[2].role) == ("trial", "env-runner")


def test_makers_that_made_each_other_have_no_trial() -> None:
    actors = (actor(1, "A", owner="w2"), actor(2, "B", owner="w1"))
    assert {each.trial for each in tags(Tables(actors=actors), seen(1), seen(2)).values()} == {None}


def test_a_trainable_of_ones_own_in_a_trials_folder_is_a_trial() -> None:
    assert roles(Tables(actors=(actor(1, "MyTrainable"),)), seen(1, trial=TRIAL)) == {1: "trial"}


@pytest.mark.parametrize("in_group", [True, False])
def test_runners_beyond_those_that_collect_evaluate(in_group: bool) -> None:
    label = "PPO(env=CartPole-v1; env-runners=2; learners=1; multi-agent=False)"
    runners = [actor(pid, "SingleAgentEnvRunner", owner="w1", started=float(pid)) for pid in (2, 3, 4)]
    if in_group:
        runners = [replace(each, bundle=each.pid - 1) for each in runners]
    tables = Tables(actors=(actor(1, "PPO", label=label), *runners))
    assert roles(tables, *(seen(pid) for pid in (1, 2, 3, 4))) == {
        1: "trial",
        2: "env-runner",
        3: "env-runner",
        4: "eval-env-runner",
    }


def test_runners_known_to_evaluate_do_where_the_algorithm_is_the_driver() -> None:
    tables = Tables(actors=(actor(2, "SingleAgentEnvRunner"), actor(3, "SingleAgentEnvRunner")))
    assert roles(tables, seen(2), seen(3), evaluation={"a3"}) == {2: "env-runner", 3: "eval-env-runner"}


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("MultiAgentEnvRunner", "env-runner"),
        ("RolloutWorker", "env-runner"),
        ("PPOTorchLearner", "learner"),
        ("RayTrainWorker", "learner"),
        ("wrap_function.<locals>.ImplicitFunc", "trial"),
        ("SAC", "trial"),
        ("", "task"),
    ],
)
def test_roles_by_class(name: str, role: str) -> None:
    assert role_of(name) == role


def test_a_task_that_is_called_like_one_of_rays_own_is_a_task() -> None:
    assert role_of_title("ray::train_raylet()") == "task"
    assert not is_rays_own("python my_raylet_test.py")
    assert is_rays_own("ray::DashboardAgent")
    assert is_rays_own("ray::SPILL_SpillWorker")


def test_a_folder_is_a_trials_only_where_tune_made_it() -> None:
    assert trial_of("/a/working_dirs/train_fn_0a1b2_00003_3_x=1_2026-11-18_11-40-26") == "0a1b2_00003"
    assert trial_of("/a/working_dirs/mine") == "mine"
    assert trial_of("/a/results/train_fn_0a1b2_00003_3") is None


# -- which processes are a node's ----------------------------------------------------------------------------------------


def running(pid: int, parent: int, command: str) -> Process:
    return Process(pid=pid, parent=parent, start=pid, state="S", command=command)


TABLE = {
    each.pid: each
    for each in (
        running(1, 0, "init"),
        running(10, 1, "python train.py"),  # a driver, which started the raylet
        running(11, 10, "/ray/gcs_server --log_dir=/tmp/s/logs"),
        running(12, 10, "/ray/raylet/raylet --raylet_socket_name=/tmp/s/sockets/raylet"),
        running(13, 12, "ray::Judge"),
        running(14, 13, "simulator"),
        running(15, 14, "simulator's own"),
        running(16, 12, "ray::Probe.look"),
        running(17, 10, "python loader.py"),
        running(20, 10, "/ray/raylet/raylet --raylet_socket_name=/tmp/s/sockets/raylet.1"),
        running(21, 20, "ray::Judge"),
        running(30, 1, "/ray/raylet/raylet --raylet_socket_name=/tmp/t/sockets/raylet"),
        running(31, 30, "ray::Judge"),
        running(40, 1, "python other.py"),
        running(41, 1, "rlmem explain"),
    )
}


def test_a_nodes_processes_are_its_raylets_its_drivers_and_what_these_started() -> None:
    known = Known(node_id="n", drivers=(10, 41), workers=(13,), askers=(41,))
    found = {process.pid: parent for process, parent in _chosen(TABLE, TABLE[12], "/tmp/s", known, 16)}
    assert found == {10: None, 11: None, 12: None, 13: None, 14: 13, 15: 13, 17: 10}


def test_without_a_raylet_drivers_and_known_workers_are_left() -> None:
    known = Known(node_id="n", drivers=(10,), workers=(13,))
    found = {process.pid: parent for process, parent in _chosen(TABLE, None, "", known, 16)}
    assert found == {10: None, 13: None, 14: 13, 15: 13, 17: 10}


# -- the object store ----------------------------------------------------------------------------------------------------

SMAPS = b"""\
7f0000000000-7f0010000000 rw-s 00000000 00:19 7 /dev/shm/plasmaAbC123 (deleted)
Size:             262144 kB
Pss:                 100 kB
Pss_Dirty:            90 kB
Private_Clean:         4 kB
Private_Dirty:        60 kB
7f0020000000-7f0030000000 rw-s 00000000 08:01 8 /tmp/ray/session/plasmaZZzz99 (deleted)
Pss:                  10 kB
a00020000000-a00030000000 r--p 00000000 08:01 9 /home/me/plasma_sim/data.bin
Pss:                   7 kB
Private_Clean:         7 kB
"""


def test_a_share_of_the_store_is_of_its_files_in_memory_and_on_the_disk() -> None:
    assert store_share(SMAPS) == StoreShare(nbytes=110 * 1024, disk_bytes=10 * 1024, only_bytes=64 * 1024)
    assert store_share(b"") == StoreShare()


def test_one_byte_in_use_is_how_ray_says_that_all_is_on_the_disk() -> None:
    assert (_primary(100, 99), _primary(100, 60), _primary(100, 100), _primary(100, 120)) == (0, 40, 0, 0)
    assert (_primary(None, 1), _primary(100, None)) == (None, None)


def test_why_a_node_did_not_answer_is_a_line() -> None:
    class ActorDiedError(Exception):
        pass

    assert _why(ActorDiedError("The actor died\nbecause")) == "the node or our probe on it died while it was asked"
    assert "install rlmem" in _why(RuntimeError("No module named 'rlmem'"))
    assert _why(ValueError("a\n  b")) == "ValueError: a b"


def test_a_cluster_that_wants_a_token_is_not_one_that_is_not_there() -> None:
    refused = ConnectionError("Failed to connect to Ray cluster at 192.0.2.1:6379")
    assert "cannot be reached" in str(_explained(refused, "192.0.2.1:6379"))
    refused.__cause__ = RuntimeError("Failed to connect to GCS: … InvalidAuthToken: Authentication token is missing")
    assert str(_explained(refused, "192.0.2.1:6379")).startswith(
        "Ray at 192.0.2.1:6379 wants a token: set RAY_AUTH_MODE"
    )
