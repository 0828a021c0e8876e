"""RLlib configurations of a real RLlib: described, planned, placed and measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmem.agent import protocol
from rlmem.core.spec import RunSpec
from rlmem.frameworks import resolve
from rlmem.programs.launch import launch
from rlmem.sources.target import parse_target
from rlmem.trace.rllib import describe_config
from rlmem.trace.rllib_truth import PROGRAM
from typed_facts import problems

CONFIGS = Path(__file__).with_name("rllib_configs.py")


def rlmem(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command, as a user gives it."""
    return subprocess.run(
        [sys.executable, "-m", "rlmem", *words, "--python", sys.executable],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=300,
        check=False,
    )


def planned(name: str, *words: str) -> dict[str, Any]:
    """A plan as JSON."""
    done = rlmem("plan", f"rllib:{CONFIGS}:{name}", "--json", *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def roles(document: dict[str, Any]) -> set[str]:
    """The processes of a plan's ledger."""
    return {entry["process"] for entry in document["entries"]}


@pytest.mark.parametrize("name", ["evaluated", "recurrent"])
def test_a_description_is_that_of_the_protocol(name: str) -> None:
    answer = launch(PROGRAM, {"target": f"{CONFIGS}:{name}", "changes": {}}, sys.executable, time_limit_s=180.0)
    assert answer.error is None
    assert list(problems(dict(answer.body), protocol.RLlibDescription)) == []
    assert list(problems(dict(answer.status), protocol.ProgramStatus)) == []


def test_a_plan_has_the_roles_of_the_configuration_and_a_place_for_each() -> None:
    document = planned("impala", "--nodes", "4x(64GB,16cpu,1xA100-80GB)")
    assert roles(document) == {
        "driver", "env-runner", "learner", "aggregator", "eval-env-runner", "state-server", "ray", "object-store",
    }  # fmt: skip
    bundles = {bundle["role"]: bundle for bundle in document["placement"]["bundles"]}
    # RLlib puts an aggregator beside its learner, and the state server beside the driver.
    assert {role: (bundle["count"], bundle["cpus"]) for role, bundle in bundles.items()} == {
        "driver": (1, 1), "env-runner": (3, 1), "learner": (2, 2), "eval-env-runner": (1, 1),
    }  # fmt: skip
    for bundle in bundles.values():
        assert min(bundle["memory_bytes"]) > bundle["high_bytes"] > 200_000_000
    assert bundles["learner"]["high_bytes"] > 1.8 * bundles["env-runner"]["high_bytes"]


def described(name: str) -> RunSpec:
    """A configuration as a run."""
    return resolve(describe_config(parse_target(f"rllib:{CONFIGS}:{name}", python=sys.executable))[0])


@pytest.mark.long
def test_a_recurrent_module_is_described_with_its_state_and_its_sequences() -> None:
    plain, recurrent = described("ppo"), described("recurrent")
    assert recurrent.count("rllib.beside_bytes") == plain.count("rllib.beside_bytes") + 2 * 256 * 4
    assert (recurrent.get("rllib.sequence"), plain.get("rllib.sequence")) == (20, None)
    # Four gates, a cell and an output of 256 floats by step at least, where two dense layers have 2 x 256 for each network.
    assert recurrent.count("rllib.value_bytes") > 6 * 256 * 4
    assert "rllib.untried" not in recurrent and "rllib.untried" not in plain


@pytest.mark.long
def test_connectors_modes_and_evaluation_are_described_as_rllib_makes_them() -> None:
    flat = described("flat")
    assert (flat.count("rllib.observation_bytes"), flat.count("rllib.seen_bytes")) == (2000, 2000)  # 500 floats
    assert [described(name).text("vec_env") for name in ("ppo", "apart")] == ["dummy", "subproc"]
    evaluated = described("evaluated")
    assert evaluated.flag("rllib.eval_in_driver")
    names = ("rllib.eval_duration", "rllib.eval_unit", "rllib.eval_envs", "n_envs")
    assert [evaluated.get(name) for name in names] == [6, "episodes", 5, 1]
    assert described("ppo").count("rllib.eval_duration") == 0


@pytest.mark.long
def test_a_module_that_fails_is_told_and_a_run_that_samples_nothing_is_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path / "data"))
    notes = planned("failing")["notes"]
    assert sum("failed: RuntimeError: " in note for note in notes) == 1
    done = rlmem("measure", f"rllib:{CONFIGS}:failing", "--json", "--timeout", "200", folder=tmp_path)
    row = json.loads(done.stdout)["rows"][0]
    assert (done.returncode, row["status"]) == (1, "failed")
    assert "nothing was sampled" in row["note"]


@pytest.mark.long
@pytest.mark.parametrize("name", ["recurrent", "apart"])
def test_what_is_unlike_other_runs_is_measured_within_its_bounds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path / "data"))
    done = rlmem("measure", f"rllib:{CONFIGS}:{name}", "--json", "--timeout", "200", folder=tmp_path)
    row = json.loads(done.stdout)["rows"][0]
    assert row["predicted"]["expected"] == pytest.approx(row["measured_bytes"], rel=0.05)
    (runner,) = [part for part in row["components"] if part["component"] == "process.env-runner"]
    assert runner["predicted_bytes"] == pytest.approx(runner["measured_bytes"], rel=0.10)


@pytest.mark.long
def test_changes_are_the_configurations_own() -> None:
    document = planned("dqn", "--set", "num_env_runners=4", "--set", "buffer_size=2_000_000")
    runners = [
        entry["nbytes"]
        for entry in document["entries"]
        if (entry["component"], entry["process"], entry["phase"]) == ("runtime.imports", "env-runner", "update")
    ]
    assert sum(runners) > 4 * 200_000_000
    replay = max(entry["nbytes"] for entry in document["entries"] if entry["component"].startswith("replay"))
    assert replay > 2_000_000 * (4 * 4 + 8 + 4)


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        pytest.param("{file}:old", 3, "old API stack", marks=pytest.mark.long),
        pytest.param("{file}:homeless", 3, "names no environment", marks=pytest.mark.long),
        pytest.param("{file}:number", 3, "is a int, not an RLlib AlgorithmConfig", marks=pytest.mark.long),
        pytest.param("{file}:nobody", 3, "has no 'nobody'", marks=pytest.mark.long),
        pytest.param("{file}:uneven", 3, "RLlib refuses the configuration: Your desired", marks=pytest.mark.long),
        ("{file}:broken", 3, "no such thing: ümlaut"),
        ("{file}", 2, "write it rllib:FILE.py:NAME"),
        ("gone.py:config", 2, "no such file"),
    ],
)
def test_what_cannot_be_planned_is_a_line(target: str, code: int, words: str) -> None:
    done = rlmem("plan", "rllib:" + target.format(file=CONFIGS))
    assert done.returncode == code, done.stderr
    assert words in done.stderr and "Traceback" not in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("rlmem:")]) == 1


def test_a_measured_run_is_within_the_bounds_of_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path / "data"))
    done = rlmem("measure", f"rllib:{CONFIGS}:ppo", "--json", "--timeout", "200", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)["rows"][0]
    assert row["status"] == "ok"
    assert row["predicted"]["low"] < row["measured_bytes"] <= row["predicted"]["high"]
    parts = {part["component"]: part for part in row["components"]}
    assert {"process.driver", "process.env-runner", "process.ray"} <= set(parts)
    for name in ("process.driver", "process.env-runner"):
        assert parts[name]["predicted_bytes"] == pytest.approx(parts[name]["measured_bytes"], rel=0.10), name


@pytest.mark.long
def test_a_gpu_that_is_not_there_is_a_row_and_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLMEM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = rlmem("measure", f"rllib:{CONFIGS}:gpu", "--json", "--timeout", "200", folder=tmp_path)
    row = json.loads(done.stdout)["rows"][0]
    assert (done.returncode, row["status"]) == (1, "failed")
    assert "asks for 1 GPUs, and this machine has 0" in row["note"]


def test_it_is_not_measured_on_a_cluster() -> None:
    done = rlmem("measure", f"rllib:{CONFIGS}:ppo", "--on", "ray", "--address", "127.0.0.1:1")
    assert done.returncode == 2 and "starts a Ray of its own" in done.stderr
