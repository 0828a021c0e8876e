"""``rlmem measure``, ``runs``, ``show`` and ``compare`` over stored runs, with points that cost nothing."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlmem.app import measure as module
from rlmem.cli import run
from rlmem.core.holdings import Holding
from rlmem.core.moments import Moment
from rlmem.core.points import Point, PointLimits, PredictedPeak, Values
from rlmem.core.target import Target
from rlmem.documents.contract import from_plain, schema_of
from rlmem.documents.plan import PlanDocument
from rlmem.documents.sweep import SweepDocument
from rlmem.errors import AnalysisError
from rlmem.runner.store import data_folder, open_store, save_plan
from rlmem.units import GIB, MIB

#: Every call of the fake measurement, in order.
CALLS: list[tuple[Target, dict[str, int | str], PointLimits]] = []
SWEEP = ("measure", "drone-swarm", "--vary", "agents=100,200,400", "--cap", "4GiB")


def fake(target: Target, values: Values, limits: PointLimits, /) -> Point:
    CALLS.append((target, dict(values), limits))
    agents = int(values.get("agents", 100))
    size = GIB + 13 * MIB * agents
    predicted = PredictedPeak(low=size - MIB, expected=size + MIB, high=size + GIB)
    if agents == 13:
        raise KeyboardInterrupt
    if agents == 14:
        raise AnalysisError("the interpreter does not start")
    if limits.cap_bytes is not None and size > limits.cap_bytes:
        note = "needs 2.2 GB more in update"
        return Point(values=values, status="oom", peak_bytes=limits.cap_bytes, note=note, predicted=predicted)
    return Point(values=values, status="ok", peak_bytes=size, predicted=predicted, phases={"update": size}, wall_s=1.0)


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    monkeypatch.setattr(module, "measure_point", fake)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(sys, "argv", ["rlmem", "measure", "drone-swarm", "--vary", "agents=1,2"])


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def stored(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Measure, and the id of the run it made."""
    _, out, _ = call(capsys, *arguments, "--json")
    return str(json.loads(out)["run"])


def test_a_sweep_with_a_point_that_ran_out_exits_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, *SWEEP)
    assert code == 1
    assert "1 of 3 points did not end well: oom at agents=400 (needs 2.2 GB more in update)" in out
    assert "[3/3] agents=400: 4.00 GiB oom" in err
    assert [values["agents"] for _, values, _ in CALLS] == [100, 200, 400]


def test_a_sweep_that_ends_well_exits_zero(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "measure", "drone-swarm", "--vary", "agents=10,20", "--cap", "8GB")
    assert code == 0
    assert "13.6 MB for each of agents" in out


def test_without_vary_there_is_one_point_with_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "measure", "pidog-sac", "--set", "buffer_size=10k", "--timeout", "60")
    assert (code, out.splitlines()[0][:18]) == (0, "RAM peak 2.27 GiB ")
    ((target, values, limits),) = CALLS
    assert (target.text, values) == ("pidog-sac", {})
    assert (target.sets, limits.time_limit_s) == (("buffer_size=10k",), 60.0)
    assert limits.cap_bytes is not None  # most of what may be used here


def test_a_script_gets_its_arguments_and_interpreter(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "größe 🚁.py"
    script.write_text("pass")
    assert call(capsys, "measure", "pidog-sac", "--python", sys.executable)[0] == 0
    assert CALLS.pop()[0].python == sys.executable
    arguments = ("measure", str(script), "--python", sys.executable, "--", "--env", "Hopper-v5")
    code, out, _ = call(capsys, *arguments)
    assert (code, str(script) in out) == (0, True)
    assert CALLS[0][0].args == ("--env", "Hopper-v5")
    assert CALLS[0][0].python == sys.executable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["measure"], "Missing argument 'TARGET'"),
        (["measure", "drone-swarm", "--vary", "agents"], "write it as name=values"),
        (["measure", "drone-swarm", "--vary", "agents="], "no values"),
        (["measure", "drone-swarm", "--vary", "agents=1x"], "unknown suffix 'x'"),
        (["measure", "drone-swarm", "--vary", "agents=abc"], "--vary: agents: 'abc' is not a whole number"),
        (["measure", "drone-swarm", "--vary", "agents=1", "--vary", "agents=2"], "given twice"),
        (["measure", "drone-swarm", "--vary", "agent=1"], "--vary: agent: unknown key (did you mean 'agents'?)"),
        (
            ["measure", "drone-swarm", "--vary", "algorithm=ppo,sacc"],
            "--vary: algorithm: swarm has no algorithm 'sacc'",
        ),
        (["measure", "drone-swarmm"], "unknown preset 'drone-swarmm' (did you mean 'drone-swarm'?)"),
        (["measure", "drone-swarm", "--", "--env", "x"], "only a script takes arguments"),
        (["measure", "no-such.py"], "no-such.py: no such file"),
        (["measure", "drone-swarm", "--cap", "lots"], "--cap 'lots' is not a size"),
        (["measure", "drone-swarm", "--cap", "16"], "add a unit, such as --cap 16GB"),
        (["measure", "drone-swarm", "--repeat", "0"], "0 is not in the range"),
        (["measure", "drone-swarm", "--timeout", "-1"], "is not in the range"),
        (["measure", "drone-swarm", "--python", "no-such-python"], "--python no-such-python: no such interpreter"),
        (["measure", "drone-swarm", "--json", "--format", "text"], "contradict"),
        (["show", "abcd1234"], "no run starts with 'abcd1234'"),
        (["show", "nothing"], "nothing: no such file"),
        (["compare", "abcd1234", "pidog-sac"], "no run starts with 'abcd1234'"),
        (["runs", "--delete", "abcd"], "no run starts with 'abcd'"),
        (["runs", "--delete", "*"], "is not a run"),
        (["runs", "--kind", "dream"], "'dream' is not one of"),
        (["runs", "--limit", "0"], "is not in the range"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_measured(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out, CALLS) == (2, "", [])
    assert err.startswith("rlmem: ")
    assert err.count("\n") == 1
    assert message in err
    with open_store() as store:
        assert store.runs() == ()


def test_ctrl_c_keeps_points_says_how_to_go_on_and_the_sweep_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["measure", "drone-swarm", "--vary", "agents=10,20,13", "--cap", "8GB"]
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (130, "")
    name = re.search(r"2 of 3 points are kept in run (\w{8})", err)
    assert name is not None
    assert "give the same command again: rlmem measure drone-swarm --vary agents=1,2" in err
    assert "interrupted: 2 of 3 points measured" in call(capsys, "show", name[1])[1]
    CALLS.clear()
    code, _, err = call(capsys, *arguments[:3], "agents=10,20,30", "--cap", "8GB", "--json")
    assert code == 0
    assert "2 of 3 points are known from an earlier run" in err
    assert [values["agents"] for _, values, _ in CALLS] == [30]


def test_ctrl_c_before_the_first_point_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "measure", "drone-swarm", "--vary", "agents=13")
    assert (code, "no point was finished" in err) == (130, True)


def test_what_cannot_be_measured_is_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "measure", "drone-swarm", "--vary", "agents=10,14", "--cap", "8GB")
    assert code == 1
    assert "failed at agents=14 (the interpreter does not start)" in out


def test_json_is_the_contract_and_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, *SWEEP, "--repeat", "2", "--json")
    data = json.loads(out)
    jsonschema.validate(data, schema_of(SweepDocument))
    assert (code, len(data["points"]), len(data["rows"])) == (1, 6, 3)
    assert "[6/6]" in err


@pytest.mark.parametrize("option", ["--csv", "-o"])
def test_points_are_exported(capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str) -> None:
    path = tmp_path / "points.csv"
    _, out, err = call(capsys, *SWEEP, option, str(path))
    with path.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["status"] for row in rows] == ["ok", "ok", "oom"]
    assert bool(out) is (option == "--csv")
    assert f"wrote {path}" in err


def test_a_missing_parquet_library_is_said_before_anything_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for option in ("--parquet", "-o"):
        code, out, err = call(capsys, *SWEEP, option, str(tmp_path / "x.parquet"))
        assert (code, out, CALLS) == (3, "", [])
        assert "rlmem[parquet]" in err


def test_a_store_that_cannot_be_used_is_said_before_anything_runs(capsys: pytest.CaptureFixture[str]) -> None:
    data_folder().mkdir()
    (data_folder() / "runs.db").write_bytes(b"junk" * 999)
    for arguments in (SWEEP, ("runs",), ("show", "abcd1234")):
        code, out, err = call(capsys, *arguments)
        assert (code, out, CALLS) == (3, "", [])
        assert "not a usable results file" in err


def test_runs_lists_shows_and_deletes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "none yet" in call(capsys, "runs")[1]
    name = stored(capsys, *SWEEP)
    code, out, _ = call(capsys, "runs")
    assert code == 0
    row = next(line for line in out.splitlines() if name in line)
    assert "drone-swarm" in row
    assert "partial" in row
    assert json.loads(call(capsys, "runs", "--json", "--kind", "measure")[1])["runs"][0]["points"] == 3
    assert json.loads(call(capsys, "runs", "--json", "--kind", "plan")[1])["runs"] == []
    assert "agents=400" in call(capsys, "show", name[:5])[1]
    assert call(capsys, "runs", "--delete", name[:6]) == (0, "", f"deleted {name}\n")
    assert json.loads(call(capsys, "runs", "--json")[1])["runs"] == []


def test_a_saved_sweep_is_shown_again_from_its_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    call(capsys, *SWEEP, "-o", str(path))
    assert "oom at agents=400" in call(capsys, "show", str(path))[1]
    table = tmp_path / "points.csv"
    assert call(capsys, "show", str(path), "-o", str(table))[:2] == (0, "")
    assert table.read_text().startswith("run,target,vary.agents")


def plan(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(call(capsys, "plan", "pidog-sac", "--ram", "30GB", "--json", *more)[1])
    return document


def test_a_saved_plan_is_shown_and_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small, large = (
        save_plan(from_plain(PlanDocument, plan(capsys, "--set", f"buffer_size={size}"), "plan"))
        for size in ("10k", "20k")
    )
    assert "RAM" in call(capsys, "show", small)[1]
    code, _, err = call(capsys, "show", small, "--csv", str(tmp_path / "x.csv"))
    assert (code, "only measurements have points" in err) == (2, True)
    both = json.loads(call(capsys, "compare", small, large, "--json")[1])
    assert both["settings"] == [{"path": "buffer_size", "left": 10_000, "right": 20_000}]
    mixed = json.loads(call(capsys, "compare", small, "pidog-sac", "--set-right", "buffer_size=20k", "--json")[1])
    assert mixed["settings"] == both["settings"]
    code, _, err = call(capsys, "compare", small, large, "--set-left", "n_envs=2")
    assert (code, "--set cannot change it" in err) == (2, True)


def test_stored_sweeps_are_compared_and_with_a_plan_of_the_same_run_only(capsys: pytest.CaptureFixture[str]) -> None:
    left = stored(capsys, *SWEEP)
    right = stored(capsys, *SWEEP, "--fresh", "--set", "history=10")
    code, out, _ = call(capsys, "compare", left, right)
    assert code == 0
    assert "agents=200" in out
    assert "By phase at agents=200" in out
    code, _, err = call(capsys, "compare", left, "pidog-sac")
    assert (code, "no point has a measured peak at the values of the plan" in err) == (2, True)


def recorded(size: int) -> str:
    """A run as 'rlmem run' stores it; its id."""
    owner = Holding(path="buffer", kind="array", type="ndarray", nbytes=size, resident_bytes=size)
    moments = [
        Moment(at_s=1.0, tree_bytes=size, rss_bytes=size, phase="collect"),
        Moment(at_s=2.0, tree_bytes=size + GIB, rss_bytes=size + GIB, phase="update", holdings=(owner,)),
    ]
    header = {"target": "größe 🚁.py", "command": ["python", "größe 🚁.py"]}
    with open_store(write=True) as store:
        run = store.begin("run", header["target"], document=header)
        store.record(run.id, dict(enumerate(moments)))
    return run.id


def test_recorded_runs_are_compared_with_each_other_and_with_sweeps(capsys: pytest.CaptureFixture[str]) -> None:
    left, right = recorded(2 * GIB), recorded(3 * GIB)
    document = json.loads(call(capsys, "compare", left, right, "--json")[1])
    assert document["schema"] == "rlmem.compare-recorded/1"
    assert document["owners"][0] == {"path": "buffer", "left_bytes": 2 * GIB, "right_bytes": 3 * GIB}
    for wanted in ("text", "markdown"):
        code, out, _ = call(capsys, "compare", left[:6], right[:6], "--format", wanted)
        assert code == 0
        for text in ("größe 🚁.py", "buffer", "+1.00 GiB", "1.50×", "not held by a named owner", "update"):
            assert text in out, text
    code, out, _ = call(capsys, "compare", left, stored(capsys, *SWEEP))
    assert (code, "measured 4.00 GiB" in out) == (0, True)
    code, _, err = call(capsys, "compare", left, right, "--set-left", "n_envs=2")
    assert (code, "--set cannot change it" in err) == (2, True)


def test_the_bar_is_drawn_in_a_terminal_only(capsys: pytest.CaptureFixture[str]) -> None:
    import io

    from rlmem.report.progress import progress

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    with progress(2, "measuring [x]", stream) as tell:
        tell("agents=1: [red]5 GiB")
        tell("agents=2: 6 GiB")
    assert "agents=1: [red]5 GiB" in stream.getvalue()
