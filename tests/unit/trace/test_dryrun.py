"""Dry runs of scripts that are not training scripts, and of what they do to files. Needs neither numpy nor torch."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from rlmem.agent import proc
from rlmem.cli import run as cli
from rlmem.sources.target import parse_target
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.target import find_runnable


def try_out(folder: Path, text: str, *args: str, time_s: float = 10.0) -> DryRun:
    script = folder / "train.py"
    script.write_text(text, encoding="utf-8")
    return dry_run(find_runnable(parse_target(str(script), args, python=sys.executable), folder=folder), time_s=time_s)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\ndef f(:\n    pass\n", r"does not parse at .*train\.py:2 .*SyntaxError"),
        (
            "def load():\n    raise FileNotFoundError('prices ☂.csv')\nload()\n",
            r"stopped at .*train\.py:2 .*prices ☂\.csv",
        ),
        ("import sys\nsys.exit(0)\n", r"exited at .*train\.py:2 .*exit code 0"),
        ("import sys\nsys.exit('no GPU')\n", r"exited at .*train\.py:2 .*no GPU"),
        ("name = input('run name: ')\n", r"stopped at .*train\.py:1 .*EOFError"),
        ("print('hello')\n", r"ran to its end in \d+ s without training"),
        ("import a_module_that_is_not_there\n", r"stopped at .*train\.py:1 .*a_module_that_is_not_there"),
        ("import os\nos._exit(0)\n", r"ended itself"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", r"SIGKILL"),
    ],
)
def test_a_script_that_cannot_be_planned_says_what_happened_and_where(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    assert cli(["plan", str(script), "--python", sys.executable]) == 3
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("rlmem: ")
    import re

    assert re.search(said, error), error
    assert "Traceback" not in error


def test_a_script_that_runs_for_ever_is_ended_at_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text("while True: pass\n")
    began = time.monotonic()
    assert cli(["plan", str(script), "--python", sys.executable, "--timeout", "5"]) == 3
    assert time.monotonic() - began < 30
    assert "the dry run's time was over after" in capsys.readouterr().err


def test_a_daemon_it_left_behind_is_gone(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    text = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({str(mark)!r}, "w").write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
while not os.path.exists({str(mark)!r}) or not open({str(mark)!r}).read():
    time.sleep(0.02)
print("pid", open({str(mark)!r}).read())
"""
    run = try_out(tmp_path, text)
    pid = int(run.outcome.stdout.split()[-1])
    assert proc.status(pid) is None


def test_files_are_put_back_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("months of work\n")
    (tmp_path / "old-logs").mkdir()
    (tmp_path / "old-logs" / "events").write_text("kept")
    (tmp_path / "moved.txt").write_text("here")
    (tmp_path / "removed ☂.txt").write_text("still here")
    text = """
import os, shutil
open("results.csv", "w").write("gone")
open("results.csv", "a").write("more")
os.makedirs("logs/deep/er")
open("logs/deep/er/new.txt", "w").write("x")
shutil.rmtree("old-logs")
os.mkdir("old-logs")
open("old-logs/other", "w").write("y")
os.rename("moved.txt", "there.txt")
os.remove("removed ☂.txt")
os.symlink("results.csv", "link")
import pathlib
pathlib.Path("touched").touch()
"""
    before = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    run = try_out(tmp_path, text)
    assert run.stop is None, run.stop
    after = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert after == sorted([*before, "train.py"])
    assert (tmp_path / "results.csv").read_text() == "months of work\n"
    assert (tmp_path / "old-logs" / "events").read_text() == "kept"
    assert (tmp_path / "moved.txt").read_text() == "here"
    assert (tmp_path / "removed ☂.txt").read_text() == "still here"


def test_links_moved_folders_and_emptied_folders_are_put_back(tmp_path: Path) -> None:
    for name in ("run-1", "run-2", "logs", "alone"):
        (tmp_path / name).mkdir()
    (tmp_path / "run-1" / "model").write_text("one")
    (tmp_path / "logs" / "events").write_text("kept")
    (tmp_path / "alone" / "only").write_text("here")
    (tmp_path / "latest").symlink_to("run-1")
    (tmp_path / "file").write_text("old")
    (tmp_path / "by-link").symlink_to("file")
    text = """
import os, sqlite3, threading
os.unlink("latest"); os.symlink("run-2", "latest")
os.rename("logs", "logs.bak")
os.remove("alone/only"); os.rmdir("alone")
open("by-link", "w").write("new")
for turn in range(2):
    open("file.tmp", "w").write("newer"); os.replace("file.tmp", "file")
sqlite3.connect("study.db").execute("create table t (x)")
if os.fork() == 0:
    open("run-1/model", "w").write("child")
    os._exit(0)
os.wait()
"""
    before = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    run = try_out(tmp_path, text)
    assert run.stop is None, run.stop
    assert run.facts["notes"] == []
    after = {path: path.read_text() for path in tmp_path.rglob("*") if path.is_file() and path.name != "train.py"}
    assert after == before
    assert os.readlink(tmp_path / "latest") == "run-1"
    assert os.readlink(tmp_path / "by-link") == "file"


def test_a_temporary_folder_behind_a_link_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
    assert try_out(tmp_path, "print('hello')\n").met == "end"
    assert list((tmp_path / "real").iterdir()) == []


def test_files_are_put_back_when_the_script_is_killed(tmp_path: Path) -> None:
    (tmp_path / "results.csv").write_text("months of work\n")
    text = "open('results.csv', 'w').write('gone')\nopen('new', 'w')\nimport os\nos.abort()\n"
    try_out(tmp_path, text)
    assert (tmp_path / "results.csv").read_text() == "months of work\n"
    assert not (tmp_path / "new").exists()


def test_nothing_of_the_dry_run_stays_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tempfile

    own = tmp_path / "tmp"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    try_out(tmp_path, "import tempfile\nopen(tempfile.mkstemp()[1], 'w').write('x')\n")
    assert list(own.iterdir()) == []


def test_the_script_gets_its_arguments_its_folder_and_its_name(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("word = 'found'\n")
    text = "import sys, os, beside\nprint(sys.argv[1:], os.getcwd(), __name__, beside.word)\n"
    run = try_out(tmp_path, text, "--env", "Höpper-v5")
    assert run.outcome.stdout.split() == ["['--env',", "'Höpper-v5']", os.fspath(tmp_path), "__main__", "found"]


def test_only_what_is_run_takes_script_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(["plan", "pidog-sac", "--", "--env", "X"]) == 2
    assert cli(["plan", "pidog-sac", "--timeout", "9"]) == 2
    assert cli(["plan", "nowhere.py"]) == 2
    assert "no such file" in capsys.readouterr().err
