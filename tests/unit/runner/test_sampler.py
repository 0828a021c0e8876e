"""The rule for the peak of a tree, in numbers, in captured files, and on small live processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlmem.agent import proc
from rlmem.process.sampler import Pages, Reading, Record, Sampler, read_pages, read_tree, role
from rlmem.process.tree import JOB_VARIABLE, Tree, read_stat
from rlmem.units import MIB

pytestmark = pytest.mark.skipif(proc.rollup() is None, reason="reads smaps_rollup")
TOP, WORKER, LATE = 10, 11, 12


def pages(anonymous: int, shared: int = 0) -> Pages:
    return Pages(anonymous=anonymous, shared=shared)


def reading(nbytes: int, **of: Pages) -> Reading:
    known = {int(name[1:]): each for name, each in of.items()}
    return Reading(nbytes=nbytes, pages=known, shares=dict.fromkeys(known, nbytes // len(known)) if known else {})


def test_before_any_reading_the_rss_stands_in() -> None:
    record = Record()
    assert record.look({TOP: pages(70, 30)}) == 100
    record.close(TOP, 0)
    assert record.peak_bytes == 100


def test_growth_since_the_last_reading_counts() -> None:
    record = Record()
    record.read(reading(90, p10=pages(70, 30)))
    assert record.look({TOP: pages(170, 40)}) == 200
    assert record.look({TOP: pages(70, 30)}) == 90
    assert record.peak_bytes == 200


def test_a_fork_that_came_after_the_reading_adds_only_what_it_grows() -> None:
    record = Record()
    record.read(reading(1000, p10=pages(1000)))
    assert record.look({TOP: pages(1000), LATE: pages(1000)}) == 1000
    assert record.look({TOP: pages(1000), LATE: pages(1050)}) == 1050
    assert record.look({TOP: pages(1000)}) == 1000  # gone again, and never counted


def test_who_held_the_peak_adds_up_to_it() -> None:
    record = Record()
    record.read(reading(300, p10=pages(100), p11=pages(100), p12=pages(100)))
    assert sum(record.shares.values()) == record.peak_bytes == 300
    record.look({TOP: pages(180, 50), WORKER: pages(100, 50)})  # one grew, one ended, libraries were loaded
    assert sum(record.shares.values()) == record.peak_bytes == 330
    assert max(record.shares, key=record.shares.__getitem__) == TOP
    record.mark(TOP, 200)
    record.mark(WORKER, 700)  # a spike between two looks
    record.read(reading(320, p10=pages(180), p11=pages(140)))
    assert sum(record.shares.values()) == record.peak_bytes == 880
    assert record.shares[WORKER] == 720
    record.close(TOP, 1000)
    assert sum(record.shares.values()) == record.peak_bytes == 1000
    # Half of what a process maps is a file that a stranger maps too: the tree's figure has it whole.
    record.read(Reading(nbytes=1200, pages={TOP: pages(600, 600)}, shares={TOP: 900}))
    assert record.shares == {TOP: 1200}


def test_file_pages_that_all_workers_load_count_once() -> None:
    record = Record()
    record.read(reading(300, p10=pages(100), p11=pages(100), p12=pages(100)))
    assert record.look({pid: pages(100, 50) for pid in (TOP, WORKER, LATE)}) == 350


def test_a_spike_that_only_vmhwm_saw_is_added_to_the_next_reading() -> None:
    record = Record()
    record.mark(TOP, 100)
    record.read(reading(90, p10=pages(100)))
    assert record.peak_bytes == 90
    record.mark(TOP, 400)
    record.read(reading(95, p10=pages(105)))
    assert record.peak_bytes == 95 + 400 - 105


def test_an_old_spike_is_not_added_to_a_larger_tree() -> None:
    record = Record()
    record.mark(TOP, 400)
    record.read(reading(100, p10=pages(100)))
    record.mark(TOP, 400)
    record.read(reading(900, p10=pages(100), p11=pages(800)))
    assert record.peak_bytes == 900


def test_a_reset_vmhwm_does_not_lower_what_was_seen() -> None:
    record = Record()
    for hwm in (400, 100):
        record.mark(TOP, hwm)
        record.read(reading(100, p10=pages(100)))
    record.close(TOP, 0)
    assert (record.hwm[TOP], record.peak_bytes) == (400, 400)


def test_a_spike_of_a_process_that_ended_is_settled_with_the_reading_before() -> None:
    record = Record()
    record.read(reading(200, p10=pages(100), p11=pages(100)))
    record.mark(WORKER, 180)
    record.read(reading(100, p10=pages(100)))
    assert record.peak_bytes == 280


def test_the_last_spike_of_a_single_process_comes_from_its_rusage() -> None:
    record = Record()
    record.mark(TOP, 100)
    record.read(reading(90, p10=pages(100)))
    record.close(TOP, 500)
    assert (record.peak_bytes, record.shares) == (490, {TOP: 490})


def test_rusage_of_a_tree_may_be_a_descendants_and_is_not_added_up() -> None:
    record = Record()
    for pid in (TOP, WORKER):
        record.mark(pid, 100)
    record.read(reading(200, p10=pages(100), p11=pages(100)))
    record.close(TOP, 500)
    assert record.peak_bytes == 500


def test_a_reading_of_nobody_changes_nothing() -> None:
    record = Record()
    record.read(reading(90, p10=pages(100)))
    record.read(reading(0))
    assert record.reading is not None and record.reading.nbytes == 90


@pytest.mark.parametrize(
    ("pid", "expected"),
    [(1, "main"), (2, "forkserver"), (3, "worker"), (4, "worker"), (5, "worker"), (6, "other"), (7, "other")],
)
def test_roles_are_read_from_command_lines(pid: int, expected: str) -> None:
    server = "python -c from multiprocessing.forkserver import main; main(5)"
    commands = {
        1: "python train.py",
        2: server,
        3: server,
        4: "python train.py",
        5: "python -c from multiprocessing.spawn import spawn_main --multiprocessing-fork",
        6: "python -c from multiprocessing.resource_tracker import main;main(4)",
        7: "Xvfb :99",
    }
    assert role(pid, 1, {2: 1, 3: 2, 4: 1, 5: 1, 6: 1, 7: 1}, commands) == expected


def fake(root: Path, pid: int, *, parent: int = 1, start: int = 5, state: str = "S", environ: bytes = b"A=1\0") -> None:
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    words = [state, str(parent), *["0"] * 17, str(start), "0"]
    (folder / "stat").write_text(f"{pid} (a) name) {' '.join(words)}\n")
    (folder / "environ").write_bytes(environ)
    (folder / "statm").write_text("100 50 20 1 0 30 0\n")


def test_a_tree_is_found_by_descent_by_mark_and_by_cgroup(tmp_path: Path) -> None:
    for pid, parent, environ in (
        (10, 1, b"A=1\0"),
        (11, 10, b""),
        (12, 1, b"B=2\0RLMEM_JOB=j\0"),
        (13, 12, b"x"),
        (14, 1, b"y"),
    ):
        fake(tmp_path, pid, parent=parent, environ=environ)
    fake(tmp_path, 15, environ=b"RLMEM_JOB=jj\0")
    fake(tmp_path, 16, environ=b"z")
    tree = Tree(10, "j", others=lambda: (16,), root=str(tmp_path))
    assert sorted(tree.refresh()) == [10, 11, 12, 13, 16]
    assert tree.parents[13] == 12


def test_a_member_stays_one_when_its_parent_ends_and_new_children_join(tmp_path: Path) -> None:
    fake(tmp_path, 10)
    fake(tmp_path, 11, parent=10)
    tree = Tree(10, "j", root=str(tmp_path))
    tree.refresh()
    fake(tmp_path, 11, parent=1)
    fake(tmp_path, 12, parent=11)
    fake(tmp_path, 10, state="Z")
    assert sorted(tree.refresh()) == [11, 12]


def test_a_number_given_again_is_a_stranger(tmp_path: Path) -> None:
    fake(tmp_path, 10)
    tree = Tree(10, "j", root=str(tmp_path))
    tree.refresh()
    tree.top = None
    fake(tmp_path, 10, start=6)
    assert tree.refresh() == ()


def test_vanished_processes_read_as_nothing(tmp_path: Path) -> None:
    (tmp_path / "10").mkdir()
    assert read_stat(10, str(tmp_path)) is None
    assert read_pages(10, str(tmp_path)) is None
    assert read_tree((10, 11), str(tmp_path)) == reading(0)
    assert Tree(10, "j", root=str(tmp_path)).refresh() == ()
    sampler = Sampler(Tree(10, "j", root=str(tmp_path)), root=str(tmp_path))
    sampler.start()
    time.sleep(0.05)
    sampler.stop()
    assert sampler.peak().pss_bytes == 0


@pytest.fixture
def forked() -> Iterator[subprocess.Popen[str]]:
    """Two processes that share 100 MiB, and say so when it is touched."""
    script = """
import os, sys, time
block = bytearray(100 << 20); block[::4096] = b'x' * len(block[::4096])
if os.fork() == 0:
    print('ready', flush=True)
time.sleep(60)
"""
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, JOB_VARIABLE: "shared"},
        start_new_session=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "ready\n"
    yield child
    Tree(child.pid, "shared").end()
    child.wait()
    child.stdout.close()


def test_a_reading_is_what_the_agent_would_read(forked: subprocess.Popen[str]) -> None:
    pids = Tree(forked.pid, "shared").refresh()
    assert len(pids) == 2
    assert read_tree(pids).nbytes == pytest.approx(proc.tree_bytes(pids), abs=MIB)


def test_pages_in_statm_and_in_a_reading_agree(forked: subprocess.Popen[str]) -> None:
    cheap = read_pages(forked.pid)
    assert cheap is not None
    full = read_tree((forked.pid,)).pages[forked.pid]
    assert full.anonymous == pytest.approx(cheap.anonymous, abs=2 * MIB)
    assert full.rss == pytest.approx(cheap.rss, abs=2 * MIB)


def test_the_sampler_counts_shared_pages_once_and_costs_little(forked: subprocess.Popen[str]) -> None:
    sampler = Sampler(Tree(forked.pid, "shared"))
    begin, cpu = time.monotonic(), time.process_time()
    sampler.start()
    time.sleep(1.0)
    sampler.stop()
    share = (time.process_time() - cpu) / (time.monotonic() - begin)
    peak = sampler.peak()
    assert 100 * MIB < peak.pss_bytes < 150 * MIB
    assert peak.rss_bytes > 200 * MIB
    assert [each.role for each in peak.processes] == ["main", "worker"]
    assert sum(each.bytes_at_peak for each in peak.processes) == pytest.approx(peak.pss_bytes, abs=20 * MIB)
    assert share < 0.3, f"{share:.0%} of a core"
