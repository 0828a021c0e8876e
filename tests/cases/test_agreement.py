"""``plan``, ``fit`` and ``lint`` about one script: the same peak, the same verdict, the same saving."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.agent.describe import stacks
from rlmem.cli import run as cli
from rlmem.units import GIB

pytestmark = pytest.mark.truth
SCRIPTS = Path(__file__).parents[2] / "accuracy" / "scripts"
#: Two dry runs of one script differ by this much at most; and a closed form from either.
NEAR = 0.05
#: Findings that say what a buffer that keeps everything once would save.
ONCE = ("MEM101", "MEM102", "MEM103")

ATARI = """
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack

env = VecFrameStack(make_atari_env("ale_py:ALE/Breakout-v5", n_envs=1), n_stack=4)
model = DQN("CnnPolicy", env, buffer_size=1_000_000, learning_starts=1000)
model.learn(1_000_000)
"""
#: The same, stopped before an update: an environment that fails at its first step.
BROKEN = ATARI.replace("model = DQN", "env.venv.step_async = None\nmodel = DQN")


def said(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    cli([*words, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def ram(peaks: list[dict[str, Any]]) -> dict[str, Any]:
    return max((peak for peak in peaks if peak["device"] == "ram"), key=lambda peak: int(peak["expected_bytes"]))


def saved(document: dict[str, Any], *codes: str) -> int | None:
    found = (f["saves_bytes"] for f in document["findings"] if f["code"] in codes and f["saves_bytes"])
    return max(found, default=None)


def check(capsys: pytest.CaptureFixture[str], script: Path, limit: str | None = None) -> None:
    """Ask all three about a script, against a limit that it just misses unless one is given."""
    python = ("--python", sys.executable)
    if limit is None:
        peak = ram(said(capsys, "plan", str(script), *python)["peaks"])
        limit = f"{int(0.7 * peak['expected_bytes'])}B"
    plan = said(capsys, "plan", str(script), *python, "--ram", limit)
    fit = said(capsys, "fit", str(script), *python, "--ram", limit)
    lint = said(capsys, "lint", str(script), "--ram", limit, "--severity", "info")
    before, after = (ram(fit[side]["peaks"]) for side in ("before", "after"))
    needed = ram(plan["peaks"])
    assert before["expected_bytes"] == pytest.approx(needed["expected_bytes"], rel=NEAR)
    assert fit["before"]["verdict"] == plan["verdict"]
    assert (fit["status"] == "already") == (needed["high_bytes"] <= needed["limit_bytes"])
    steps = {step["name"]: step["saves_bytes"]["ram"] for step in (*fit["alone"], *fit["steps"])}
    assert all(size > 0 for size in steps.values())
    once = saved(plan, *ONCE)
    if once is not None and "compact-store" in steps:
        assert steps["compact-store"] == pytest.approx(once, rel=NEAR)
    for code in ("MEM001", *ONCE):
        ours, theirs = saved(plan, code), saved(lint, code)
        if ours is not None and theirs is not None:
            assert theirs == pytest.approx(ours, rel=NEAR), code
    if any(finding["code"] == "MEM001" for finding in lint["findings"]):
        assert plan["verdict"] == "does-not-fit"
    if fit["status"] == "fits":
        assert after["high_bytes"] <= after["limit_bytes"]


def test_they_agree_about_stacked_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(ATARI)
    check(capsys, script, "24GB")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.name, marks=[pytest.mark.long] * (path.name != "sb3_her.py"))
        for path in sorted(SCRIPTS.glob("*.py"))
    ],
)
def test_they_agree_about_the_scripts_of_the_corpus(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(capsys, SCRIPTS / name)


def test_a_plan_in_closed_form_knows_the_stack_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four of 84×84: 7,056 bytes a transition and a mark, not 28,224."""
    script = tmp_path / "train.py"
    script.write_text(BROKEN)
    plan = said(capsys, "plan", str(script), "--python", sys.executable, "--ram", "24GB")
    assert plan["method"] == "closed form"
    (finding,) = (found for found in plan["findings"] if found["code"] == "MEM102")
    assert "stored 8 times" in finding["title"]
    assert ram(plan["peaks"])["expected_bytes"] - finding["saves_bytes"] < 7.5 * GIB
    assert not any(found["code"] == "MEM101" for found in plan["findings"])


def test_stacks_are_read_off_wrappers_unless_an_unknown_one_is_around_them() -> None:
    import gymnasium as gym
    from gymnasium.wrappers import FrameStackObservation, RecordEpisodeStatistics
    from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor

    class Squeeze(gym.ObservationWrapper):  # type: ignore[type-arg]
        def observation(self, observation: Any) -> Any:
            return observation.mean(axis=0)

    def inner() -> Any:
        return FrameStackObservation(gym.make("CartPole-v1"), 3)

    assert stacks(VecMonitor(VecFrameStack(DummyVecEnv([lambda: gym.make("CartPole-v1")]), 4))) == {"": 4}
    assert stacks(DummyVecEnv([lambda: RecordEpisodeStatistics(inner())])) == {"": 3}
    assert stacks(DummyVecEnv([lambda: Squeeze(inner())])) == {}
    assert stacks(DummyVecEnv([lambda: gym.make("CartPole-v1")])) == {}
    assert stacks(None) == {}
