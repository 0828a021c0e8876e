"""Frameworks side by side: who counts as what, parts that add up, and tables that say no more than was measured."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.framework_bench import results, tables
from benchmarks.framework_bench.cases import CASES, SAID_RLLIB
from benchmarks.framework_bench.census import MAIN, OTHER, WORKER, Census, divided, role

from rlmem.core.roles import RAY
from rlmem.runner.child import run_child

ROOT = Path(__file__).parents[3]
MIB, GIB = 2**20, 2**30
BY_ID = {case.id: case for case in CASES}


def row(name: str, **cells: int | str) -> results.Row:
    base: dict[str, int | str] = {
        "id": name, "status": "ok", "wall_s": 60, "processes": 4, "threads": 3, "tree_bytes": GIB, "main_bytes": 512 * MIB,
        "workers": 0, "ray_processes": 0, "ray_bytes": 0, "store_bytes": 0, "date": "2026-01-02", "machine": "here", "versions": "x 1",
    }  # fmt: skip
    return dict.fromkeys(results.COLUMNS, "") | {key: str(value) for key, value in (base | cells).items()}


# ---------------------------------------------------------------- who is who
FORK = "python -c from multiprocessing.forkserver import main; main(1)"
SITE = "/envs/ray/lib/python3.11/site-packages/ray"


@pytest.mark.parametrize(
    ("command", "parent", "expected"),
    [
        (
            "/envs/ray/bin/python train.py",
            1,
            WORKER,
        ),  # forked: the program's own line; the interpreter's folder says nothing
        (FORK, 1, OTHER),
        (FORK, 2, WORKER),
        ("python -c from multiprocessing.resource_tracker import main;main(3)", 1, OTHER),
        ("python -c from multiprocessing.spawn import spawn_main; spawn_main(1)", 1, WORKER),
        (f"{SITE}/core/src/ray/raylet/raylet --raylet_socket_name=x", 1, RAY),
        (f"/envs/ray/bin/python -u {SITE}/_private/log_monitor.py", 1, RAY),
        (f"/envs/ray/bin/python {SITE}/_private/workers/default_worker.py", 3, RAY),
        ("ray::DashboardAgent", 3, RAY),
        ("ray::IDLE", 3, RAY),
        ("ray::SingleAgentEnvRunner.sample", 3, WORKER),
        ("lscpu", 1, OTHER),
    ],
)
def test_processes_are_told_apart(command: str, parent: int, expected: str) -> None:
    commands = {1: "/envs/ray/bin/python train.py", 2: FORK, 3: f"{SITE}/core/src/ray/raylet/raylet", 9: command}
    assert role(9, 1, parent, commands) == expected


def test_the_program_itself_is_main_whatever_its_line_says() -> None:
    assert role(1, 1, 0, {1: "ray::IDLE"}) == MAIN


def test_parts_and_the_store_add_up_to_the_total_when_strangers_share_the_libraries() -> None:
    parts = {
        1: {"Pss_Anon": 100 * MIB, "Pss_File": 10 * MIB, "Pss_Shmem": 6 * MIB},
        2: {"Pss_Anon": 50 * MIB, "Pss_File": 30 * MIB, "Pss_Shmem": 4 * MIB, "SwapPss": MIB},
    }
    total = (100 + 50 + 1 + 10 + 200) * MIB  # 200 MiB of libraries, of which strangers are charged 160
    members = divided(total, parts, {1: MAIN, 2: WORKER}, {1: 7})
    assert [member.nbytes // MIB for member in members] == [150, 201]
    assert sum(member.nbytes + member.store_bytes for member in members) == total
    assert [member.threads for member in members] == [7, 1]


def test_the_census_sees_a_forked_child_with_what_it_alone_holds(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time\n"
        "held = b'x' * (60 << 20)\n"
        "read, write = os.pipe()\n"
        "if not os.fork():\n"
        "    own = b'y' * (90 << 20); os.write(write, b'x'); time.sleep(60)\n"
        "os.read(read, 1); time.sleep(2.5)\n"
    )
    census = Census()
    outcome = run_child([sys.executable, str(script)], on_tick=census)
    assert outcome.status == "ok"
    (worker,), (main,) = census.of(WORKER), census.of(MAIN)
    assert 90 * MIB <= worker.nbytes < 150 * MIB
    assert 25 * MIB <= main.nbytes < 90 * MIB  # its 60 MiB are shared with the child
    assert census.threads == 1
    assert census.total_bytes == pytest.approx(outcome.peak.pss_bytes, rel=0.05)


# ---------------------------------------------------------------- tables
def test_a_measured_row_tells_workers_ray_store_and_plan() -> None:
    case = BY_ID["continuous:rllib-2"]
    cells = row(
        case.id, workers=2, worker_bytes=300 * MIB, largest_worker_bytes=310 * MIB, ray_processes=7,
        ray_bytes=200 * MIB, store_bytes=MIB, plan_expected=int(1.1 * GIB),
    )  # fmt: skip
    *_, line = tables.task_table([case], {case.id: cells}, "continuous")
    for text in ("**1.00 GiB**", "2 × 300 MiB", "200 MiB", "1.00 MiB", "1.10 GiB (+10 %)", SAID_RLLIB):
        assert text in line
    assert "largest" not in line


def test_workers_that_differ_show_the_largest() -> None:
    case = BY_ID["continuous:elegantrl-3"]
    cells = row(case.id, workers=5, worker_bytes=100 * MIB, largest_worker_bytes=150 * MIB)
    assert "5 × 100 MiB, largest 150 MiB" in tables.task_table([case], {case.id: cells}, "continuous")[-1]


def test_what_is_not_known_is_left_empty_and_never_a_number() -> None:
    case = BY_ID["atari:cleanrl"]
    line = tables.task_table([case], {case.id: row(case.id)}, "atari")[-1]
    assert line.split(" | ")[5:] == ["512 MiB", "", "", "", "–", " |"]


def test_failed_and_missing_cases_say_so_in_a_row_of_the_same_width() -> None:
    failed, missing = BY_ID["atari:rllib-0"], BY_ID["atari:rllib-2"]
    cells = row(failed.id, status="failed", note="exit code 1: a | b")
    head, _, first, second = tables.task_table([failed, missing], {failed.id: cells}, "atari")
    assert "failed: exit code 1: a / b" in first
    assert "not measured yet" in second
    assert first.count("|") == second.count("|") == head.count("|")


def test_claims_divide_what_was_said_by_what_was_measured() -> None:
    rows = {
        case.id: row(
            case.id, tree_bytes=1_000_000_000, workers=2, worker_bytes=250_000_000, largest_worker_bytes=250_000_000
        )
        for case in CASES
    }
    lines = tables.claims_table(CASES, rows)
    assert "| 2 to 5 times |" in lines[2]
    assert "| 15 to 25 times |" in lines[3]
    assert "| 40 to 60 times |" in lines[4]
    assert "118 to 398 env runners of the continuous task" in lines[5]  # (30 − 0.5) / 0.25


def test_claims_without_measurements_claim_nothing() -> None:
    assert all("not measured" in line for line in tables.claims_table(CASES, {})[2:])
    failed = {case.id: row(case.id, status="timeout", tree_bytes="") for case in CASES}
    assert all("not measured" in line for line in tables.claims_table(CASES, failed)[2:])


def test_a_page_keeps_its_prose_and_gets_every_table() -> None:
    text = "before\n<!-- table: one -->\nold | 1\n<!-- end -->\nafter"
    assert tables.written(text, {"one": lambda: ["new"]}) == "before\n<!-- table: one -->\nnew\n<!-- end -->\nafter"


def test_a_page_without_a_place_for_a_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="places for nothing"):
        tables.written("no place", {"one": lambda: ["new"]})


def test_the_page_is_what_the_results_say() -> None:
    page = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
    assert tables.written(page, tables.parts(CASES, results.read())) == page


# ---------------------------------------------------------------- results and the command
def test_results_come_back_as_written_in_the_order_of_the_cases(tmp_path: Path) -> None:
    path, names = tmp_path / "r.csv", ["b", "a"]
    results.write({name: row(name, note='x, "y"\nz') for name in ("a", "b", "gone")}, names, path)
    found = results.read(path)
    assert list(found) == names
    assert found["a"] == row("a", note='x, "y"\nz')


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text("name,value\na,1\n")
    with pytest.raises(SystemExit, match="not a results file"):
        results.read(path)


def test_every_case_has_its_script_an_id_of_its_own_and_a_proof_that_can_fail() -> None:
    assert len(BY_ID) == len(CASES)
    for case in CASES:
        assert case.script.is_file()
        assert not case.is_done("") and not case.is_done("iteration 1\n|    iterations | 1 |")
    assert BY_ID["continuous:sb3-1"].is_done("|    iterations           | 5        |")
    assert BY_ID["atari:rllib-2"].is_done("iteration 12\n")
    assert not BY_ID["atari:cleanrl"].is_done("iteration 30\n")


def command(*words: str) -> subprocess.CompletedProcess[str]:
    asked = [sys.executable, str(ROOT / "benchmarks" / "frameworks.py"), *words]
    return subprocess.run(asked, capture_output=True, text=True, check=False)


def test_the_command_refuses_a_case_nobody_knows_and_an_interpreter_without_the_frameworks(tmp_path: Path) -> None:
    done = command("--only", "pascal:*")
    assert (done.returncode, "no case is called pascal:*" in done.stderr) == (2, True)
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # no installed packages
    bare.chmod(0o755)
    done = command("--only", "atari:cleanrl", "--python", str(bare), "--results", str(tmp_path / "r.csv"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "make frameworks" in done.stderr
    assert not (tmp_path / "r.csv").exists()
