"""What is said about one script: rules on its text, and rules on plans of the runs in it, each said once."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rlmem.core.findings import Finding
from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.lint.check import MOST_PLANS, find
from rlmem.lint.linter import Linter
from rlmem.lint.settings import Asked, settings_for
from rlmem.planner import Planner
from rlmem.rules import rules
from rlmem.rules.base import Rule
from rlmem.scripts import Script, parse_script
from rlmem.units import GIB

if TYPE_CHECKING:
    import pytest

TRAIN = """
import gymnasium as gym
from stable_baselines3 import SAC

env = gym.make("{env}")
model = SAC(
    "MlpPolicy",
    env,
    buffer_size=20_000_000,
)
model.learn(20_000_000)
"""


def found(text: str, ram_bytes: int = 64 * GIB, path: str = "train.py") -> tuple[Finding, ...]:
    budget = Budget(name="test", ram_bytes=ram_bytes)
    return find(parse_script(text, path), Planner(budget)).findings


def test_a_run_that_a_script_describes_is_planned_and_its_findings_have_places_and_bytes() -> None:
    findings = {finding.code: finding for finding in found(TRAIN.format(env="Pendulum-v1"), GIB)}
    assert findings["MEM001"].severity == "error"
    place = findings["MEM001"].place
    assert place is not None
    assert place.path == "train.py"
    assert 6 <= place.line <= 10
    assert (findings["MEM101"].saves_bytes or 0) > 200 * 10**6


def test_a_run_whose_environment_is_not_known_is_not_planned() -> None:
    assert found(TRAIN.format(env="MyOwn-v0"), GIB) == ()


def test_two_runs_with_the_same_mistake_are_two_findings() -> None:
    once = TRAIN.format(env="Pendulum-v1")
    twice = once + once.replace("model", "other").split("SAC\n\n", 1)[1]
    lines = [finding.place.line for finding in found(twice) if finding.code == "MEM101" and finding.place]
    assert len(lines) == len(set(lines)) == 2


def test_no_place_gets_the_same_finding_twice() -> None:
    loop = TRAIN.format(env="Pendulum-v1").replace("\nmodel = ", "\nfor seed in range(3):\n  model = ")
    findings = found(loop)
    keys = [(finding.code, finding.place) for finding in findings]
    assert len(keys) == len(set(keys))


def test_a_linter_can_be_sent_to_another_process(tmp_path: Path) -> None:
    linter = Linter(settings_for([tmp_path], Asked()), Budget(name="test", ram_bytes=GIB))
    path = tmp_path / "train.py"
    path.write_text(TRAIN.format(env="Pendulum-v1"))
    copy = pickle.loads(pickle.dumps(linter))
    report = copy.lint(path)
    assert report == linter.lint(path)
    assert pickle.loads(pickle.dumps(report)) == report
    assert "MEM001" in {item.finding.code for item in report.shown}


def test_a_buffer_longer_than_the_run_counts_as_far_as_it_is_written() -> None:
    text = TRAIN.format(env="Pendulum-v1")
    whole = {finding.code: finding for finding in found(text)}["MEM101"]
    half = {finding.code: finding for finding in found(text.replace("learn(20_000", "learn(10_000"))}["MEM101"]
    assert whole.saves_bytes is not None
    assert half.saves_bytes is not None
    assert 2 * half.saves_bytes <= whole.saves_bytes


def test_what_a_test_does_is_information() -> None:
    findings = found(TRAIN.format(env="Pendulum-v1"), path="tests/test_train.py")
    assert {finding.severity for finding in findings} == {"info"}


def test_a_rule_that_stumbles_is_named_and_the_others_still_speak(monkeypatch: pytest.MonkeyPatch) -> None:
    def stumbling(rule: Rule, script: Script) -> Iterator[Finding]:
        raise IndexError("no such argument")

    whole = rules("script")
    broken = tuple(replace(rule, on_script=stumbling) if rule.code == "MEM601" else rule for rule in whole)
    monkeypatch.setattr("rlmem.rules.rules", lambda subject=None: broken)
    said = find(parse_script("import ray\nray.init()\n"), Planner(Budget(name="test")))
    assert said.stumbled == ["MEM601: IndexError: no such argument"]
    assert [finding.code for finding in said.findings] == ["MEM701"]


def many_runs(count: int, different: bool) -> str:
    head = "import gymnasium as gym\nfrom stable_baselines3 import SAC\nenv = gym.make('Pendulum-v1')\n"
    sizes = [20_000_000 + (number if different else 0) for number in range(count)]
    return head + "".join(f"m{n} = SAC('MlpPolicy', env, buffer_size={size})\n" for n, size in enumerate(sizes))


class CountingPlanner(Planner):
    """Says how many runs it was asked to plan with findings."""

    asked = 0

    def plan(self, spec: RunSpec) -> Plan:
        self.asked += 1
        return super().plan(spec)


def test_runs_that_are_alike_are_planned_once_and_each_has_its_finding() -> None:
    planner = CountingPlanner(Budget(name="test"))
    said = find(parse_script(many_runs(MOST_PLANS + 5, different=False)), planner)
    lines = {finding.place.line for finding in said.findings if finding.code == "MEM101" and finding.place}
    assert lines == set(range(4, MOST_PLANS + 9))
    assert (planner.asked, said.unplanned) == (1, 0)


def test_of_very_many_different_runs_the_first_are_planned_and_the_rest_is_counted(tmp_path: Path) -> None:
    planner = CountingPlanner(Budget(name="test"))
    text = many_runs(MOST_PLANS + 2, different=True)
    said = find(parse_script(text), planner)
    assert (planner.asked, said.unplanned) == (MOST_PLANS, 2)
    path = tmp_path / "train.py"
    path.write_text(text)
    problem = Linter(settings_for([path], Asked()), Budget(name="test")).lint(path).problem
    assert problem is not None
    assert (problem.text, problem.failed) == ("2 of its runs were not planned; skipped", False)
