"""The timeline of a run: bounded, kept in batches, and never a reason for the run to end."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from rlmem.app.recorded import recorded_document
from rlmem.cli import app
from rlmem.core.holdings import Holding, Portion, Progress
from rlmem.core.moments import Moment
from rlmem.documents.contract import from_plain, read_part, to_plain
from rlmem.documents.moment import MemberPart, moment_data, read_moment
from rlmem.documents.recorded import RecordedDocument, Recording
from rlmem.errors import UsageError
from rlmem.report.recorded import recorded_view, summary_lines
from rlmem.runner import recording
from rlmem.runner import store as store_module
from rlmem.runner.recording import Recorder, Timeline
from rlmem.runner.store import data_folder, open_store
from rlmem.units import MIB

DAY = 86_400


def moment(at_s: float, nbytes: int = 100 * MIB, *, owners: bool = False) -> Moment:
    held = Holding(
        path="model.replay_buffer.observations",
        kind="array",
        type="ndarray",
        nbytes=80 * MIB,
        resident_bytes=nbytes // 2,
        filled=int(at_s),
        capacity=1000,
    )
    return Moment(
        at_s=at_s,
        tree_bytes=nbytes,
        rss_bytes=nbytes,
        threads=3,
        limit_bytes=1000 * MIB,
        limit_name="--max-ram",
        phase="collect",
        progress=Progress(step=int(at_s) * 4, total=None, source="DQN") if owners else None,
        holdings=(held,) if owners else None,
        portions=(Portion(name="heap", resident_bytes=7),) if owners else None,
    )


#: What a recorder begins with.
ASKED = Recording(target="train.py", command=("python", "train.py"))


def member(pid: int) -> MemberPart:
    return MemberPart(pid=pid, role="main", command="", rss_bytes=0, pss_bytes=None, uss_bytes=None, threads=1)


def recorder(said: list[str], **options: float) -> Recorder:
    return Recorder(("rlmem", "run"), ASKED, say=said.append, **options)  # type: ignore[arg-type]


def kept(run: str | None) -> tuple[Moment, ...]:
    assert run is not None
    with open_store() as store:
        return store.timeline(run)


@pytest.mark.parametrize("owners", [False, True])
def test_a_moment_comes_back_as_it_was(owners: bool) -> None:
    before = moment(12.0, owners=owners)
    assert read_moment(json.loads(json.dumps(moment_data(before)))) == before


def test_a_moment_of_a_later_version_is_read_without_what_is_new() -> None:
    assert read_moment({**moment_data(moment(1.0)), "colour": "red"}) == moment(1.0)


def test_a_week_stays_small_and_keeps_its_peak_and_its_last_minutes() -> None:
    timeline, stored = Timeline(), {}
    for second in range(0, 7 * DAY, 10):
        spike = 100 * MIB + (second == 100_000) * MIB
        change = timeline.add(moment(float(second), spike, owners=second % 120 == 0))
        stored |= {number: moment_data(each) for number, each in change.kept.items()}
        for number in change.gone:
            del stored[number]
    assert len(timeline.moments) < 3000
    assert [read_moment(data) for _, data in sorted(stored.items())] == list(timeline.moments)
    assert max(each.tree_bytes for each in timeline.moments) == 101 * MIB
    last = [each.at_s for each in timeline.moments if each.at_s > 7 * DAY - 201]
    assert len(last) == 20
    assert sum(each.holdings is not None for each in timeline.moments) > 100
    assert len(json.dumps(stored)) < 3e6


def test_what_was_recorded_is_there_before_the_end() -> None:
    said: list[str] = []
    one = recorder(said, flush_s=0.05)
    timeline = Timeline()
    one.start()
    for second in range(5):
        one.keep(timeline.add(moment(float(second))))
    deadline = threading.Event()
    for _ in range(200):
        if one.run and len(kept(one.run)) == 5:
            break
        deadline.wait(0.05)
    assert len(kept(one.run)) == 5
    with open_store() as store:
        assert store.find(str(one.run)).status == "running"
    one.finish("ok", ASKED)
    assert said == []


def test_what_is_noted_is_in_the_header_before_the_end_and_costs_no_moment() -> None:
    said: list[str] = []
    one = recorder(said, flush_s=0.02)
    one.start()
    one.keep(Timeline().add(moment(0.0)))
    for facts in (
        {"described": {"model": {"algorithm": "DQN"}}},
        {"members": (member(1),)},
        {"members": (member(2),)},
    ):
        one.note(facts)
        threading.Event().wait(0.1)
    with open_store() as store:
        found = store.find(str(one.run))
    assert (found.status, found.finished) == ("running", None)
    expected = replace(ASKED, described={"model": {"algorithm": "DQN"}}, members=(member(2),))
    assert read_part(Recording, found.document) == expected
    assert len(kept(one.run)) == 1
    one.finish("ok", ASKED)
    assert said == []


def test_a_run_that_was_deleted_meanwhile_ends_its_recording_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []
    one = recorder(said, flush_s=0.02)
    one.start()
    while one.run is None:
        threading.Event().wait(0.02)
    with open_store(write=True) as store:
        store.delete(one.run)
    one.note({"members": ()})
    one._thread.join(timeout=10)
    one.finish("ok", ASKED)
    assert said[0].startswith("recording stopped, the run goes on: no run starts with")
    assert capfd.readouterr().err == ""


def test_a_full_disk_ends_the_recording_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = store_module._connect

    def small(path: Path, write: bool, busy_s: float) -> sqlite3.Connection:
        connection = connect(path, write, busy_s)
        connection.execute("PRAGMA max_page_count = 12")  # SQLite's own word for a full disk
        return connection

    monkeypatch.setattr(store_module, "_connect", small)
    said: list[str] = []
    one = recorder(said, flush_s=0.02)
    timeline = Timeline()
    one.start()
    for second in range(2000):
        one.keep(timeline.add(moment(float(second), owners=True)))
    one._thread.join(timeout=10)
    assert "database or disk is full" in one.problem
    one.keep(timeline.add(moment(1.0)))
    one.finish("ok", {})
    assert all("recording stopped, the run goes on" in text for text in said)
    assert said


def test_two_runs_at_once_keep_their_own_timelines() -> None:
    said: list[str] = []
    both = [recorder(said, flush_s=0.01) for _ in range(2)]
    for one in both:
        one.start()
    lines = [Timeline(), Timeline()]
    for second in range(50):
        for one, timeline, size in zip(both, lines, (10, 20), strict=True):
            one.keep(timeline.add(moment(float(second), size * MIB)))
    for one in both:
        one.finish("ok", ASKED)
    assert said == []
    assert both[0].run != both[1].run
    for one, size in zip(both, (10, 20), strict=True):
        assert {row.tree_bytes for row in kept(one.run)} == {size * MIB}
        assert len(kept(one.run)) == 50


def test_another_process_that_writes_delays_a_batch_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "BUSY_SECONDS", 0.05)
    said: list[str] = []
    one = recorder(said, flush_s=0.02)
    timeline = Timeline()
    one.start()
    while one.run is None:
        threading.Event().wait(0.02)
    other = sqlite3.connect(data_folder() / "runs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    one.keep(timeline.add(moment(0.0)))
    threading.Event().wait(0.4)
    assert kept(one.run) == ()
    other.execute("ROLLBACK")
    other.close()
    one.finish("ok", ASKED)
    assert said == []
    assert len(kept(one.run)) == 1


def test_deleting_a_run_deletes_its_moments() -> None:
    one = recorder([])
    one.start()
    one.keep(Timeline().add(moment(0.0)))
    one.finish("ok", ASKED)
    with open_store(write=True) as store:
        store.delete(str(one.run))
        assert store.timeline(str(one.run)) == ()


def stored_run(*, ended: bool = True) -> str:
    one = recorder([])
    one.start()
    timeline = Timeline()
    for second in range(30):
        one.keep(timeline.add(moment(float(second), (100 + second) * MIB, owners=second % 10 == 0)))
    header = {
        "target": "train.py",
        "command": ["python", "train.py"],
        "policy": {"max_ram_bytes": 1000 * MIB, "action": "stop"},
    }
    end = {
        "returncode": -9,
        "exit_code": 137,
        "status": "oom",
        "wall_s": 31.0,
        "peak": {"nbytes": 131 * MIB, "at_s": 29.5, "phase": "update", "step": 120, "seen": False},
        "events": [{"at_s": 20.0, "kind": "warn", "text": "RAM at 81% of --max-ram"}],
        "deaths": [],
        "left": [],
        "postmortem": {
            "kind": "oom-killer",
            "cause": "ended by the kernel's OOM killer for cgroup /x (limit 128 MiB)",
            "limit_bytes": 128 * MIB,
            "limit_name": "cgroup",
            "window_s": 30.0,
            "grown": [{"name": "model.replay_buffer", "nbytes": 15 * MIB, "now_bytes": 65 * MIB, "items": 30}],
            "changes": ["`model.replay_buffer` with 900 rows instead of 1,000 fits"],
        },
    }
    if ended:
        one.finish("oom", read_part(Recording, {**header, "ended": end}))
    else:
        one.finish("running", read_part(Recording, header))
    return str(one.run)


@pytest.mark.parametrize("format_", ["text", "markdown", "json"])
@pytest.mark.parametrize("command", ["assess", "show"])
def test_a_recorded_run_is_shown_in_every_format(command: str, format_: str) -> None:
    name = stored_run()
    done = CliRunner().invoke(app, [command, name[:6], "--format", format_], standalone_mode=False)
    assert done.exception is None
    if format_ == "json":
        document = json.loads(done.stdout)
        assert from_plain(RecordedDocument, document, "it").peak.nbytes == 131 * MIB
        assert len(document["moments"]) == 30
        return
    for text in ("killed by SIGKILL after 31 s", "OOM killer", "131 MiB", "in update", "900 rows", "RAM at 81%"):
        assert text in done.stdout, text


def test_assess_says_with_its_exit_code_that_a_run_died() -> None:
    assert CliRunner().invoke(app, ["assess", stored_run()], standalone_mode=False).return_value == 1


def test_a_recording_that_was_cut_short_is_shown_without_an_end() -> None:
    done = CliRunner().invoke(app, ["assess", stored_run(ended=False)], standalone_mode=False)
    assert done.exception is None
    assert "the recording has no end" in done.stdout
    assert "129 MiB" in done.stdout


def test_a_run_of_another_kind_cannot_be_assessed() -> None:
    with open_store(write=True) as store:
        name = store.begin("bench", "x").id
    done = CliRunner().invoke(app, ["assess", name], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert "of kind bench" in str(done.exception)


def test_recorded_runs_are_listed_with_their_peaks() -> None:
    name = stored_run()
    done = CliRunner().invoke(app, ["runs", "--kind", "run", "--json"], standalone_mode=False)
    (row,) = json.loads(done.stdout)["runs"]
    assert (row["id"], row["kind"], row["status"], row["peak_bytes"]) == (name, "run", "oom", 131 * MIB)


def test_a_saved_document_can_be_read_again_and_a_broken_one_is_refused() -> None:
    document = recorded_document(Recording(command=("x",)), [moment(1.0)])
    assert recorded_view(from_plain(RecordedDocument, to_plain(document), "it")).sections
    assert summary_lines(document)[0].startswith("still running")
    with pytest.raises(UsageError, match="peak: missing"):
        from_plain(RecordedDocument, {k: value for k, value in to_plain(document).items() if k != "peak"}, "it")


def test_a_disk_that_is_really_full_is_said_and_the_command_goes_on(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a file system without room."""
    body = "import time, sys; time.sleep(3); print('done')"
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (24576, 24576));"
        "from rlmem.cli import main; main(sys.argv[1:])"
    )
    src = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--interval", "0.05", "--", sys.executable, "-c", body],
        # No compiled modules either: a file cut off at the limit would be found by the next Python.
        env={"PYTHONPATH": src, "RLMEM_DATA_DIR": str(tmp_path / "full"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "recording stopped, the run goes on" in done.stderr
    assert "recorded as" not in done.stderr


def test_a_leak_is_said_first_with_the_list_that_keeps_the_graphs() -> None:
    """150 MiB a second, over after 40 s."""
    moments = []
    for at in range(41):
        note = f"holds {100 * at} tensors with the graphs they came from"
        losses = Holding(
            path="losses", kind="container", type="list", nbytes=60_000 * at, resident_bytes=60_000 * at,
            filled=100 * at, note=note, added_at="train.py:9: losses.append(loss)",
        )  # fmt: skip
        buffer = Holding(path="obs_buf", kind="array", type="numpy.ndarray", nbytes=55 * MIB, resident_bytes=55 * MIB)
        size = (300 + 150 * at) * MIB
        look = (buffer, losses) if at in {3, 6, 12, 24} else None
        moments.append(Moment(at_s=float(at), tree_bytes=size, rss_bytes=size, limit_bytes=8192 * MIB, holdings=look))
    ended = {"wall_s": 40.0, "returncode": -9, "exit_code": 137, "status": "killed", "peak": {"nbytes": 0}}
    document = recorded_document(read_part(Recording, {"target": "t", "ended": ended}), moments)
    lines = summary_lines(document)
    assert lines[0] == "killed by SIGKILL after 40 s"
    assert lines[1].startswith("leaking: total grows 8.79 GiB/min: leak suspected, OOM in ")
    assert "owner: `losses` (list, +6.0 k/min)" in lines[1]
    assert lines[2] == "`losses` grows at train.py:9: losses.append(loss)"
    assert "loss.item()" in lines[3]
    peak = next(line for line in lines if line.startswith("peak"))
    assert "held by losses about 3.5" in peak
