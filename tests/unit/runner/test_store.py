"""The store: runs and points that survive interruptions, other processes and other versions."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rlmem.core.plan import Budget
from rlmem.core.points import Point
from rlmem.documents.contract import from_plain
from rlmem.documents.plan import PlanDocument, plan_document
from rlmem.errors import AnalysisError, UsageError
from rlmem.planner import Planner
from rlmem.runner import store as module
from rlmem.runner.store import MIGRATIONS, data_folder, open_store, save_plan
from rlmem.sources import load

SRC = Path(__file__).parents[3] / "src"


def point(value: int = 1, status: str = "ok") -> Point:
    return Point(values={"agents": value}, status=status, peak_bytes=10 * value)


def write_version_1(path: Path) -> None:
    """A file as the first version wrote it: never to be changed, however the schema grows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE runs (id TEXT PRIMARY KEY, kind TEXT NOT NULL, target TEXT NOT NULL, command TEXT NOT NULL,
          sweep TEXT NOT NULL, started TEXT NOT NULL, finished TEXT, status TEXT NOT NULL, machine TEXT NOT NULL,
          versions TEXT NOT NULL, document TEXT NOT NULL);
        CREATE INDEX runs_by_sweep ON runs (sweep);
        CREATE TABLE points (run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE, axes TEXT NOT NULL,
          repeat INTEGER NOT NULL, point TEXT NOT NULL, PRIMARY KEY (run, axes, repeat));
        INSERT INTO runs VALUES ('0ld0f11e', 'measure', 'drone-swarm', '["rlmem", "measure", "drone-swarm"]', 'k',
          '2026-01-02T03:04:05Z', '2026-01-02T03:05:05Z', 'ok', '{"cores": 4}', '{"rlmem": "0.2.0"}',
          '{"target": "drone-swarm", "axes": [{"name": "agents", "values": [100]}], "repeat": 1, "options": {}}');
        INSERT INTO points VALUES ('0ld0f11e', '{"agents": 100}', 0,
          '{"values": {"agents": 100}, "status": "ok", "peak_bytes": 123, "phases": {}, "components": {},
            "processes": [], "versions": {}, "wall_s": 1.0, "note": "", "predicted": null}');
        PRAGMA user_version = 1;
        """
    )
    connection.commit()
    connection.close()


def test_a_run_comes_back_as_it_was_kept() -> None:
    with open_store(write=True) as store:
        run = store.begin("measure", "größe/🚁.py", command=("rlmem", "measure"), sweep="k", document={"a": [1]})
        store.add(run.id, point(1))
        store.add(run.id, replace(point(1), repeat=1))
        store.add(run.id, point(2, "oom"))
        store.finish(run.id, "partial", {"b": 2})
    with open_store() as store:
        found = store.find(run.id)
        assert (found.kind, found.target, found.status) == ("measure", "größe/🚁.py", "partial")
        assert found.command == ("rlmem", "measure")
        assert found.document == {"b": 2}
        assert found.finished is not None
        assert found.machine["cores"] >= 1
        assert set(found.versions) == {"rlmem", "python"}
        kept = store.points(run.id)
        assert kept == (point(1), replace(point(1), repeat=1), point(2, "oom"))


def test_a_store_that_is_not_there_is_empty_and_stays_away() -> None:
    with open_store() as store:
        assert store.runs() == ()
    assert not data_folder().exists()


def test_a_target_that_is_not_text_is_kept_as_far_as_it_is(tmp_path: Path) -> None:
    name = os.fsdecode(b"train-\xff.py")
    with open_store(write=True) as store:
        run = store.begin("measure", name, command=(name,), document={"target": name})
        assert store.find(run.id).target == "train-�.py"


def test_a_point_measured_again_replaces_the_first() -> None:
    with open_store(write=True) as store:
        run = store.begin("measure", "x")
        store.add(run.id, point(1, "timeout"))
        store.add(run.id, point(1))
        assert store.points(run.id) == (point(1),)


def test_runs_are_listed_newest_first_and_filtered() -> None:
    with open_store(write=True) as store:
        names = [
            store.begin(kind, "x", sweep=key).id for kind, key in (("measure", "a"), ("bench", ""), ("measure", "b"))
        ]
        assert [run.id for run in store.runs()] == names[::-1]
        assert [run.id for run in store.runs(kind="measure")] == [names[2], names[0]]
        assert [run.id for run in store.runs(sweep="a")] == [names[0]]
        assert len(store.runs(limit=2)) == 2
        with pytest.raises(ValueError, match="kind 'dream'"):
            store.begin("dream", "x")


def test_deleting_a_run_takes_its_points_along() -> None:
    with open_store(write=True) as store:
        run = store.begin("measure", "x")
        store.add(run.id, point())
        store.delete(run.id)
        assert store.runs() == ()
        assert store.points(run.id) == ()


def test_a_prefix_finds_a_run_unless_two_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter(("abcd1111", "abcd1111", "abcd2222", "abce3333"))  # the second is taken: another is drawn

    class Drawn:
        @property
        def hex(self) -> str:
            return next(ids)

    monkeypatch.setattr(module.uuid, "uuid4", Drawn)
    with open_store(write=True) as store:
        for _ in range(3):
            store.begin("measure", "x")
        assert store.find("abce").id == "abce3333"
        assert store.find("abcd1").id == "abcd1111"
        with pytest.raises(UsageError, match="2 runs start with 'abcd': abcd2222, abcd1111; give more"):
            store.find("abcd")
        with pytest.raises(UsageError, match="no run starts with 'ffff'"):
            store.find("ffff")
        for bad in ("", "abc", "ABCD", "%%%%", "????", "x" * 8):
            with pytest.raises(UsageError, match="is not a run"):
                store.find(bad)


def test_a_file_of_the_first_version_is_read() -> None:
    write_version_1(data_folder() / "runs.db")
    with open_store() as store:
        (run,) = store.runs()
        assert (run.id, run.target, run.versions["rlmem"]) == ("0ld0f11e", "drone-swarm", "0.2.0")
        assert store.points(run.id)[0].peak_bytes == 123
    with open_store(write=True) as store:
        store.add("0ld0f11e", point(7))
        assert len(store.points("0ld0f11e")) == 2


@pytest.mark.parametrize("write", [False, True])
def test_an_older_file_is_brought_up_to_date_and_only_a_writer_changes_it(
    monkeypatch: pytest.MonkeyPatch, write: bool
) -> None:
    path = data_folder() / "runs.db"
    write_version_1(path)
    before = path.read_bytes()
    monkeypatch.setattr(module, "MIGRATIONS", (*MIGRATIONS, ("ALTER TABLE runs ADD COLUMN colour TEXT",)))
    with open_store(write=write) as store:
        assert store.runs()[0].id == "0ld0f11e"
    assert (path.read_bytes() == before) is not write
    version = sqlite3.connect(path).execute("PRAGMA user_version").fetchone()[0]
    assert version == (len(MIGRATIONS) + 1 if write else 1)


def test_a_step_that_fails_leaves_the_file_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    path = data_folder() / "runs.db"
    write_version_1(path)
    steps = (*MIGRATIONS, ("ALTER TABLE runs ADD COLUMN colour TEXT", "DROP TABLE no_such"))
    with monkeypatch.context() as patch:
        patch.setattr(module, "MIGRATIONS", steps)
        with pytest.raises(AnalysisError, match="no such table: no_such"), open_store(write=True):
            pass
    with open_store(write=True) as store:
        assert store.runs()[0].id == "0ld0f11e"


@pytest.mark.parametrize("write", [False, True])
def test_a_newer_file_is_refused_and_left_alone(write: bool) -> None:
    path = data_folder() / "runs.db"
    write_version_1(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with (
        pytest.raises(AnalysisError, match=r"runs\.db: written by a newer rlmem \(schema 99, .*upgrade"),
        open_store(write=write),
    ):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("content", [b"not a database at all" * 99, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_corrupt_file_is_one_clear_error(content: bytes, write: bool) -> None:
    path = data_folder() / "runs.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(AnalysisError, match=r"runs\.db: .*RLMEM_DATA_DIR"), open_store(write=write):
        pass
    assert path.read_bytes() == content


def test_junk_in_a_row_is_one_clear_error() -> None:
    path = data_folder() / "runs.db"
    write_version_1(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE runs SET document = '{'")
    connection.execute("""UPDATE points SET point = '{"status": "odd"}'""")
    connection.commit()
    connection.close()
    with open_store() as store:
        with pytest.raises(AnalysisError, match="not a usable results file"):
            store.runs()
        with pytest.raises(AnalysisError, match="not a usable results file"):
            store.points("0ld0f11e")


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path / "file"))
    with pytest.raises(AnalysisError, match=r"cannot be used.*set RLMEM_DATA_DIR"), open_store(write=True):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_can_be_read_and_says_so_when_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = data_folder() / "runs.db"
    write_version_1(path)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with open_store() as store:
            assert len(store.runs()) == 1
        with open_store(write=True) as store, pytest.raises(AnalysisError, match="readonly"):
            store.begin("measure", "x")
    finally:
        path.parent.chmod(0o755)


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert data_folder() == tmp_path / "rlmem-data"
    monkeypatch.delenv("RLMEM_DATA_DIR")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert data_folder() == Path("/data/rlmem")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert data_folder() == Path("/home/me/.local/share/rlmem")


def test_processes_write_at_the_same_time() -> None:
    code = """
import sys
from rlmem.core.points import Point
from rlmem.runner.store import open_store
with open_store(write=True) as store:
    run = store.begin("measure", sys.argv[1])
    for value in range(25):
        store.add(run.id, Point(values={"n": value}, status="ok", peak_bytes=value))
    store.finish(run.id, "ok", {})
"""
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    children = [subprocess.Popen([sys.executable, "-c", code, str(n)], env=environment) for n in range(4)]
    assert [child.wait(timeout=120) for child in children] == [0] * 4
    with open_store() as store:
        assert sorted(run.target for run in store.runs()) == ["0", "1", "2", "3"]
        assert [len(store.points(run.id)) for run in store.runs()] == [25] * 4


def test_a_writer_that_never_ends_is_named() -> None:
    with open_store(write=True, busy_s=0.1) as store:
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(AnalysisError, match="another rlmem has been writing"):
            store.begin("measure", "x")
        other.close()


def test_an_interruption_in_a_transaction_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(write=True) as store:
        run = store.begin("measure", "x")
        with pytest.raises(KeyboardInterrupt), module._transaction(store._connection):
            store._connection.execute("DELETE FROM runs")
            raise KeyboardInterrupt
        assert store.find(run.id).id == run.id


def test_a_plan_is_kept() -> None:
    plan = plan_document(Planner(Budget(name="30 GB", ram_bytes=30_000_000_000)).plan(load("pidog-sac")))
    name = save_plan(plan, command=("rlmem", "plan"))
    with open_store() as store:
        run = store.find(name)
        assert (run.kind, run.target, run.status) == ("plan", "pidog-sac", plan.verdict)
        assert from_plain(PlanDocument, run.document, name) == plan
