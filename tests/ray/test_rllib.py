"""RLlib configurations of a real RLlib: described, planned, placed and measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
