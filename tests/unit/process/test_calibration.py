"""Calibration: measured in fresh processes, kept per environment, ignored when broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlmem.cli import run
from rlmem.errors import AnalysisError, UsageError
from rlmem.model.constants import Constant, Constants
from rlmem.process import calibration
from rlmem.process.calibration import PROBE, cache_file, cache_folder, calibrate, read_calibration, write_calibration

linux = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="reads smaps_rollup")
ROW = Constant(name="interpreter", low=1, expected=2, high=3, how="test", where="here", when="2026-01-01")


def script(folder: Path, body: str) -> str:
    """A stand-in for an interpreter: a shell script that answers every step."""
    path = folder / "fake-python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


ANSWERS = """
case "$2" in
  imports) echo '{"rss": {"interpreter": 9000000, "numpy": 1000}, "versions": {"python": "3.99", "numpy": "9.9"}}' ;;
  workers) echo 'a warning of some library'; echo '{"added": 5000, "worker": {}}' ;;
  threads) echo '{"each": 700}' ;;
  *) echo "no step $2" >&2; exit 1 ;;
esac
"""


@linux
def test_an_environment_without_torch_gives_its_own_constants(tmp_path: Path) -> None:
    steps: list[str] = []
    rows, versions = calibrate(script(tmp_path, ANSWERS), (), today="2026-01-02", say=steps.append)
    assert {name: row.expected for name, row in rows.items()} == {
        "interpreter": 9_000_000,
        "import.numpy": 1000,
        "thread.stack": 700,
    }
    assert all(row.low <= row.expected <= row.high and row.when == "2026-01-02" for row in rows.values())
    assert versions == {"python": "3.99", "numpy": "9.9"}
    assert "numpy 9.9" in rows["interpreter"].where
    assert steps[0] == "imports"


@linux
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo '{}'", "does not answer like a Python interpreter"),
        ("echo '{nope'", "does not answer like a Python interpreter"),
        ("""echo '{"versions": 3, "rss": 4}'""", "does not answer like a Python interpreter"),
        ("echo hello", "step 'imports' failed"),
        ("exit 7", "exit 7"),
        ("echo first >&2; echo 'real reason' >&2; exit 1", "real reason"),
        (r"printf '\377\376'; exit 1", "step 'imports' failed"),
    ],
)
def test_an_interpreter_that_answers_nonsense_is_an_analysis_error(tmp_path: Path, body: str, problem: str) -> None:
    with pytest.raises(AnalysisError, match=problem):
        calibrate(script(tmp_path, body), (), today="x")


@linux
def test_what_cannot_be_run_is_a_usage_error(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    for mode in (0o755, 0o644):
        text.chmod(mode)
        with pytest.raises(UsageError, match="cannot be run"):
            calibrate(str(text), (), today="x")
    with pytest.raises(UsageError, match="no such interpreter"):
        calibrate(str(tmp_path / "none"), (), today="x")


@linux
def test_a_step_that_hangs_is_ended_with_everything_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "STEP_SECONDS", 0.5)
    started = time.monotonic()
    with pytest.raises(AnalysisError, match=r"took over 0.5 s"):
        calibrate(script(tmp_path, f"sleep 60 & echo $! > {tmp_path}/pid; wait"), (), today="x")
    assert time.monotonic() - started < 10
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the child of the step is still running")


def probe(*arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(PROBE), *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


@linux
def test_the_probe_measures_threads_and_imports_of_this_interpreter() -> None:
    assert 0 <= probe("threads", "8")["each"] < 2**20
    found = probe("imports", "decimal", "no_such_module_anywhere", "sys")
    assert found["rss"]["interpreter"] > 2**20
    assert found["rss"]["decimal"] >= 0
    assert found["rss"]["no_such_module_anywhere"] is None
    assert found["versions"]["no_such_module_anywhere"].startswith("ModuleNotFoundError")
    assert found["rss"]["sys"] < 2**16


def test_what_was_kept_is_read_for_the_same_environment_only() -> None:
    path = write_calibration("/one/python", {"interpreter": ROW}, {"python": "3.99"})
    assert path.parent == cache_folder()
    assert read_calibration("/one/python").find("interpreter") == ROW
    assert read_calibration("/other/python") == Constants()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


GOOD = {"name": "interpreter", "low": 1, "expected": 2, "high": 3, "how": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "[" * 100_000,
        "\x00\xff",
        '{"schema": "rlmem.calibration/0", "constants": []}',
        json.dumps({"schema": "rlmem.calibration/1"}),
        json.dumps({"schema": "rlmem.calibration/1", "constants": [{"name": "x"}]}),
        json.dumps({"schema": "rlmem.calibration/1", "constants": [GOOD | {"low": "much"}]}),
        json.dumps({"schema": "rlmem.calibration/1", "constants": [GOOD | {"expected": -5}]}),
        json.dumps({"schema": "rlmem.calibration/1", "constants": [GOOD | {"high": None}]}),
        json.dumps({"schema": "rlmem.calibration/1", "constants": [GOOD | {"more": 1}]}),
        json.dumps({"schema": "rlmem.calibration/1", "constants": [GOOD, 3]}),
    ],
)
def test_a_broken_cache_file_is_as_good_as_none(text: str) -> None:
    path = cache_file(sys.executable)
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("latin-1"))
    assert read_calibration() == Constants()
    assert run(["plan", "pidog-sac-vector", "--ram", "30GB"]) == 0


def test_the_cache_folder_follows_its_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RLMEM_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "rlmem"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "rlmem"


@linux
def test_a_calibration_is_used_by_later_plans_until_it_is_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = script(tmp_path, ANSWERS)
    assert run(["calibrate", "--python", python, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in document["constants"]} >= {"interpreter", "thread.stack"}

    def interpreter() -> str:
        run(["plan", "pidog-sac-vector", "--ram", "30GB", "--python", python, "--why", "runtime.interpreter"])
        return capsys.readouterr().out

    assert "9,000,000" in interpreter()
    assert "2026" in interpreter()
    assert run(["calibrate", "--python", python, "--forget"]) == 0
    assert run(["calibrate", "--python", python, "--forget"]) == 0
    capsys.readouterr()
    assert not cache_file(python).exists()


@linux
def test_a_cache_that_cannot_be_written_is_exit_code_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RLMEM_CACHE_DIR", str(tmp_path / "file"))
    assert run(["calibrate", "--python", script(tmp_path, ANSWERS)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "cannot keep the calibration in" in captured.err
    assert captured.err.endswith("set RLMEM_CACHE_DIR\n")
    assert run(["calibrate", "--python", str(tmp_path / "fake-python"), "--forget"]) == 0
    assert run(["plan", "pidog-sac-vector", "--ram", "30GB"]) == 0


def test_a_missing_interpreter_is_exit_code_two(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("no-such-python", str(tmp_path), os.devnull):
        assert run(["calibrate", "--python", name]) == 2
        assert capsys.readouterr().err == f"rlmem: --python {name}: no such interpreter\n"


def test_a_package_nobody_measured_is_assumed_and_says_how_to_measure_it() -> None:
    row = Constants().find("import.strange")
    assert (row.low, row.where) == (0, "nowhere")
    assert "rlmem calibrate --import strange" in Constants().quantity("import.strange").origin
    worker = Constants().find("worker-import.numpy")
    assert worker.low == Constants().find("import.numpy").low // 2
