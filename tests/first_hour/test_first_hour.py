"""What a newcomer gets in the first hour: scripts as people write them, each with the answer that is right for it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlmem.runner.child import run_child

pytestmark = pytest.mark.truth
HERE = Path(__file__).parent
CAMERAS = ("--config", "cameras.yaml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A newcomer's folder: the scripts and their YAML file."""
    for path in (*HERE.glob("[!t]*.py"), *HERE.glob("*.yaml")):
        shutil.copy(path, tmp_path)
    return tmp_path


def rlmem(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A command as it is typed."""
    command = [sys.executable, "-m", "rlmem", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def planned(folder: Path, *args: str) -> tuple[dict[str, Any], int]:
    """The document of a plan and its exit code."""
    done = rlmem(folder, "plan", *args[:1], "--json", "--python", sys.executable, *args[1:])
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def peak(document: dict[str, Any]) -> int:
    """Bytes of RAM at the peak."""
    return next(int(row["expected_bytes"]) for row in document["peaks"] if row["device"] == "ram" and row["is_peak"])


def held(document: dict[str, Any], *words: str) -> int:
    """Bytes in the update of the components whose names have one of these words in them."""
    rows = (row for row in document["entries"] if row["phase"] == "update" and row["residency"] != "reserved")
    return sum(row["nbytes"] for row in rows if any(word in row["component"] for word in words))


#: Ten thousand Atari frames come before the first update; a busy machine takes longer than a plan waits by itself.
LONG = ("--timeout", "240")
ATARI_ROWS = 2 * 1_000_000 * 4 * 84 * 84


def test_a_dqn_with_a_million_atari_rows_fits_into_64_gb_and_names_its_arrays(folder: Path) -> None:
    document, code = planned(folder, "dqn_atari.py", "--ram", "64GB", *LONG)
    assert (document["verdict"], code) == ("fits", 0)
    assert held(document, "memory.obs") == pytest.approx(ATARI_ROWS / 2, rel=0.01)
    assert held(document, "memory.next_obs") == pytest.approx(ATARI_ROWS / 2, rel=0.01)


@pytest.mark.long
def test_a_dqn_with_a_million_atari_rows_is_made_to_fit_into_32_gb_by_edits_that_change_nothing(folder: Path) -> None:
    done = rlmem(folder, "fit", "dqn_atari.py", "--ram", "32GB", "--json", "--python", sys.executable)
    document = json.loads(done.stdout)
    assert document["before"]["verdict"] == "does-not-fit"
    assert ATARI_ROWS < document["before"]["peaks"][0]["expected_bytes"] < ATARI_ROWS + 2**30
    assert (document["status"], done.returncode) == ("fits", 0)
    assert [step["kind"] for step in document["steps"]] == ["lossless"]
    assert document["steps"][0]["saves_bytes"]["ram"] == pytest.approx(ATARI_ROWS / 2, rel=0.05)
    subprocess.run(["git", "apply"], cwd=folder, input=document["write"]["text"], text=True, check=True)
    script = (folder / "dqn_atari.py").read_text()
    assert "self.obs = Rows((size, *obs_shape), dtype=np.uint8)" in script
    assert "self.next_obs = self.obs.next" in script


def test_sac_on_humanoid_is_its_buffer_and_a_little(folder: Path) -> None:
    stored = 2 * 1_000_000 * 348 * 8  # Humanoid's observations are float64
    document, code = planned(folder, "sac_humanoid.py", "--ram", "16GB")
    assert (document["verdict"], code) == ("fits", 0)
    assert stored < peak(document) < stored + 2**30
    assert held(document, "observations") == pytest.approx(stored, rel=0.01)
    advice = {finding["code"]: finding["saves_bytes"] for finding in document["findings"]}
    assert advice["MEM202"] == pytest.approx(stored / 2, rel=0.05)
    assert advice["MEM101"] == pytest.approx(stored / 2, rel=0.1)


def test_sac_on_humanoid_is_made_to_fit_by_one_edit_that_changes_nothing(folder: Path) -> None:
    done = rlmem(folder, "fit", "sac_humanoid.py", "--ram", "4GB", "--json", "--python", sys.executable)
    document = json.loads(done.stdout)
    assert (document["status"], done.returncode) == ("fits", 0)
    assert [step["kind"] for step in document["steps"]] == ["lossless"]
    assert document["write"]["kind"] == "diff"
    assert "+from rlmem.sb3 import CompactReplayBuffer" in document["write"]["text"]


def test_ppo_with_two_cameras_in_workers_peaks_where_its_plan_says(folder: Path) -> None:
    document, code = planned(folder, "ppo_cameras.py", "--ram", "16GB", "--", *CAMERAS)
    assert (document["verdict"], code) == ("fits", 0)
    command = [sys.executable, "ppo_cameras.py", *CAMERAS, "--steps", "1000"]
    truth = run_child(command, cwd=folder, time_limit_s=400)
    assert truth.status == "ok", truth.describe()
    assert peak(document) == pytest.approx(truth.peak.pss_bytes, rel=0.08)
    # The four interpreters are the larger part of it, and the two cameras are named.
    assert held(document, "workers.") > peak(document) / 3
    rows = {row["component"] for row in document["entries"]}
    assert {"rollout.observations[front]", "rollout.observations[wrist]"} <= rows


def test_a_ppo_loop_that_keeps_its_losses_grows(folder: Path) -> None:
    document, code = planned(folder, "ppo_leak.py")
    assert (document["verdict"], code) == ("grows", 5)
    codes = {finding["code"] for finding in document["findings"]}
    assert "MEM601" in codes
