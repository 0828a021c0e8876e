"""``plan``, ``fit``, ``lint`` and ``explain`` about one script: the same peak, the same verdict, the same saving.

By default they share one dry run a script, and what they make of it is compared. The sweep, marked ``long``, asks the three
commands one after the other, each with dry runs of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.agent.describe import stacks
from rlmem.app.advice import advise
from rlmem.app.fit import fit_document
from rlmem.app.subjects import with_findings
from rlmem.budget import make_budget
from rlmem.cli import run as cli
from rlmem.core.holdings import Explanation
from rlmem.documents.contract import to_plain
from rlmem.documents.plan import plan_document
from rlmem.planner import ClosedForm
from rlmem.process import attach
from rlmem.process.calibration import read_calibration
from rlmem.process.explain import explain_process
from rlmem.remedies.base import Constraints
from rlmem.rules.observed import COMPACT_BYTES
from rlmem.sources.target import parse_target
from rlmem.trace.dryrun import DryRun, dry_run
from rlmem.trace.fitted import Job
from rlmem.trace.fitting import fit_target
from rlmem.trace.plan import plan_dry_run
from rlmem.trace.target import RunnableTarget, find_runnable
from rlmem.units import GIB, MIB

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
#: Of a run that is over long before its buffer is full.
SHORT = ATARI.replace("model.learn(1_000_000)", "model.learn(100_000)")

#: Scripts of the corpus that are asked by default: the arguments, and whether the limit is just missed. With a loop of
#: its own a script that does not fit is run edited for every step of ``fit``; the sweep does that.
QUICK: dict[str, tuple[tuple[str, ...], bool]] = {
    "sb3_her.py": ((), True),
    "sb3_her.py --no-her": (("--algo", "td3", "--no-her", "--buffer-size", "400000"), True),
    "sb3_subproc.py": ((), True),
    "ddpg.py": ((), False),
    "dqn.py": (("--total-timesteps", "25000"), False),
    "ppo.py": ((), False),
}


#: Of these, what every run of the tests asks about.
SHORT_LIST = {"sb3_her.py", "dqn.py"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedJob(Job):
    """A job whose target was run as it is already; edited copies and changed models are run for real."""

    first: DryRun

    def run(self, target: RunnableTarget, what: str, changes: Any = None) -> DryRun:
        return self.first if target is self.target and not changes else Job.run(self, target, what, changes)


@cache
def ran(script: Path, args: tuple[str, ...]) -> DryRun:
    return dry_run(find_runnable(parse_target(str(script), args, python=sys.executable)))


def document(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    cli([*words, "--json"])
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def ram(peaks: list[dict[str, Any]]) -> dict[str, Any]:
    return max((peak for peak in peaks if peak["device"] == "ram"), key=lambda peak: int(peak["expected_bytes"]))


def of(found: dict[str, Any], *codes: str) -> dict[str, Any] | None:
    """The finding with the largest saving of those with these codes."""
    known = [finding for finding in found["findings"] if finding["code"] in codes]
    return max(known, key=lambda finding: finding["saves_bytes"] or 0, default=None)


def observations(plan: dict[str, Any]) -> int:
    """Bytes of the observations in the replay buffer, at the peak."""
    phase = ram(plan["peaks"])["phase"]
    rows = (row for row in plan["entries"] if row["phase"] == phase and row["residency"] != "reserved")
    return sum(row["nbytes"] for row in rows if re.match(r"replay\.(next_)?observations", row["component"]))


def agree(plan: dict[str, Any], fit: dict[str, Any], lint: dict[str, Any]) -> None:
    """The same store, peak, verdict, remedy and what is left after it."""
    before, after = (ram(fit[side]["peaks"]) for side in ("before", "after"))
    needed = ram(plan["peaks"])
    assert before["expected_bytes"] == pytest.approx(needed["expected_bytes"], rel=NEAR)
    assert fit["before"]["verdict"] == plan["verdict"]
    assert (fit["status"] == "already") == (needed["high_bytes"] <= needed["limit_bytes"])
    steps = {step["name"]: step["saves_bytes"]["ram"] for step in (*fit["alone"], *fit["steps"])}
    assert all(size > 0 for size in steps.values())
    if fit["status"] == "fits":
        assert after["high_bytes"] <= after["limit_bytes"]
    once = of(plan, *ONCE)
    if once is not None and once["saves_bytes"] and "compact-store" in steps:
        assert steps["compact-store"] == pytest.approx(once["saves_bytes"], rel=NEAR)
        how = next(step["how"] for step in (*fit["alone"], *fit["steps"]) if step["name"] == "compact-store")
        assert {*re.findall(r"Compact\w+", how)} == {*re.findall(r"Compact\w+", once["remedy"])}
        if [step["name"] for step in fit["steps"]] == ["compact-store"]:
            left = needed["expected_bytes"] - once["saves_bytes"]
            assert after["expected_bytes"] == pytest.approx(left, rel=NEAR)
    for code in ("MEM001", *ONCE):
        ours, theirs = of(plan, code), of(lint, code)
        if ours is None or theirs is None:
            continue
        if ours["saves_bytes"] and theirs["saves_bytes"]:
            assert theirs["saves_bytes"] == pytest.approx(ours["saves_bytes"], rel=NEAR), code
        if ours["saves_bytes"] and theirs["costs_bytes"]:  # what is kept twice: the remedy brings numba with it
            assert theirs["costs_bytes"] - COMPACT_BYTES == pytest.approx(ours["saves_bytes"], rel=NEAR), code
        assert counts(theirs) == pytest.approx(counts(ours), rel=NEAR), code
    if (large := of(lint, "MEM106")) is not None and large["costs_bytes"]:
        assert large["costs_bytes"] == pytest.approx(observations(plan), rel=NEAR)
    if of(lint, "MEM001") is not None:
        assert plan["verdict"] == "does-not-fit"


def counts(finding: dict[str, Any]) -> list[int]:
    """The largest values of settings that a remedy names."""
    return [int(text.replace(",", "")) for text in re.findall(r"at most ([\d,]+)", finding["remedy"] or "")]


def check_one_run(
    capsys: pytest.CaptureFixture[str], script: Path, args: tuple[str, ...] = (), *, limit: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the three make of one dry run; lint does not see the arguments of a command line."""
    first = ran(script, args)
    budget, form = make_budget(ram=limit), ClosedForm(read_calibration(sys.executable))
    plan = to_plain(plan_document(with_findings(plan_dry_run(first, budget, form)).plan))
    job = TriedJob(budget=budget, form=form, target=first.target, changes={}, first=first)
    fit = to_plain(fit_document(fit_target(job, Constraints())))
    lint = document(capsys, "lint", str(script), "--ram", limit, "--severity", "info")
    agree(plan, fit, {"findings": []} if args else lint)
    if plan["target"]["spec"].get("algorithm") is None and not args:  # a loop of its own: lint speaks in the plan
        codes = {finding["code"] for finding in plan["findings"]}
        assert {finding["code"] for finding in lint["findings"] if finding["severity"] != "info"} <= codes
    return plan, lint


def check_commands(capsys: pytest.CaptureFixture[str], script: Path, args: tuple[str, ...] = ()) -> None:
    """Ask all three about a script, against a limit that it just misses."""
    python, tail = ("--python", sys.executable), ("--", *args) if args else ()
    peak = ram(to_plain(plan_document(plan_dry_run(ran(script, args), make_budget(ram="1TiB")).plan))["peaks"])
    limit = f"{int(0.7 * peak['expected_bytes'])}B"
    plan = document(capsys, "plan", "--json", str(script), *python, "--ram", limit, *tail)
    fit = document(capsys, "fit", "--json", str(script), *python, "--ram", limit, *tail)
    lint = document(capsys, "lint", str(script), "--ram", limit, "--severity", "info")
    agree(plan, fit, {"findings": []} if args else lint)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(ATARI, marks=pytest.mark.long, id="a full buffer"),
        pytest.param(SHORT, id="a run that does not fill it"),
    ],
)
def test_they_agree_about_stacked_frames(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    plan, lint = check_one_run(capsys, script, limit="4GiB" if text is SHORT else "24GB")
    assert plan["verdict"] == "does-not-fit"
    assert of(lint, "MEM102") is not None
    assert of(plan, "MEM102") is not None


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in SHORT_LIST else pytest.mark.long) for name in QUICK]
)
def test_they_agree_about_scripts_of_the_corpus(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    args, is_missed = QUICK[name]
    if name.startswith("sb3_her"):
        pytest.importorskip("highway_env", reason="highway-env (extra 'accuracy') is not installed")
    script = SCRIPTS / name.split(maxsplit=1)[0]
    peak = ram(to_plain(plan_document(plan_dry_run(ran(script, args), make_budget(ram="1TiB")).plan))["peaks"])
    limit = 0.7 * peak["expected_bytes"] if is_missed else 1.5 * peak["high_bytes"]
    plan, _ = check_one_run(capsys, script, args, limit=f"{int(limit)}B")
    assert plan["verdict"] == ("does-not-fit" if is_missed else "fits")


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "args"),
    [
        *((path.name, ()) for path in sorted(SCRIPTS.glob("[!.]*.py"))),
        ("sb3_her.py", ("--algo", "td3", "--num-envs", "4", "--buffer-size", "400000", "--batch-size", "1024")),
        ("sb3_her.py", ("--algo", "ddpg", "--env-id", "parking-v0", "--no-her", "--buffer-size", "500000")),
        ("sb3_subproc.py", ("--env-id", "ALE/Pong-v5", "--num-steps", "512", "--batch-size", "512")),
        (
            "sb3_subproc.py",
            ("--algo", "a2c", "--env-id", "LunarLander-v3", "--num-envs", "6", "--start-method", "fork"),
        ),
    ],
)
def test_the_commands_agree_about_every_script(
    name: str, args: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    check_commands(capsys, SCRIPTS / name, args)


def held(found: Explanation) -> int:
    """What the arrays of numbers of a process come to by the end of its run; those of objects are told in another way."""
    arrays = (each for each in found.holdings if each.kind in ("array", "store") and not each.path.endswith("infos"))
    return sum(each.resident_bytes + (each.growth_bytes or 0) for each in arrays if each.nbytes >= MIB)


@pytest.mark.parametrize("name", [pytest.param("sb3_her.py", marks=pytest.mark.long), "ddpg.py"])
def test_a_run_that_is_explained_is_the_run_that_was_planned(name: str) -> None:
    if name.startswith("sb3_her"):
        pytest.importorskip("highway_env", reason="highway-env (extra 'accuracy') is not installed")
    form = ClosedForm(read_calibration(sys.executable))
    subject = with_findings(plan_dry_run(ran(SCRIPTS / name, ()), make_budget(ram="64GiB"), form))
    plan = to_plain(plan_document(subject.plan))
    phase, planned = ram(plan["peaks"])["phase"], of(plan, *ONCE)
    rows = [row for row in plan["entries"] if row["phase"] == phase and row["residency"] != "reserved"]
    stores = sum(row["nbytes"] for row in rows if re.match(r"(replay|arrays)\.(?!infos)", row["component"]))
    command = [sys.executable, str(SCRIPTS / name)]
    with subprocess.Popen(command, env=attach.preload(os.environ), stdout=subprocess.PIPE) as child:
        try:
            for _ in range(60):  # until it is built; on a busy machine a walk may end before all is named
                found = explain_process(child.pid, timeout_s=20)
                advice = [each.finding for each in advise(found, timeout_s=20) if each.finding.code in ONCE]
                if held(found) > (1 - NEAR) * stores and bool(advice) == bool(planned):
                    break
                time.sleep(0.5)
        finally:
            child.kill()
    assert held(found) == pytest.approx(stores, rel=NEAR)
    savings = [finding.saves_bytes for finding in advice]
    assert savings == (pytest.approx([planned["saves_bytes"]], rel=NEAR) if planned else [])


def test_a_plan_in_closed_form_knows_the_stack_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Four of 84×84: 7,056 bytes a transition and a mark, not 28,224."""
    script = tmp_path / "train.py"
    script.write_text(BROKEN)
    plan = document(capsys, "plan", str(script), "--python", sys.executable, "--ram", "24GB")
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
