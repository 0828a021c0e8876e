"""Runs that are planned again and again: predicted once, tried before they are planned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlmem.app.fit import FitRequest, fit, fit_planned
from rlmem.app.session import DryRunMissingError, PlanSession, check_runnable
from rlmem.budget import make_budget
from rlmem.core.progress import show_nothing
from rlmem.core.subject import Subject
from rlmem.errors import AnalysisError, UsageError
from rlmem.model.constants import Constants
from rlmem.planner import ClosedForm
from rlmem.sources import load
from rlmem.sources.target import parse_target
from rlmem.units import GIB

BUDGET = make_budget(ram="8GB", vram="80GB")


def test_what_one_plan_has_predicted_serves_the_others() -> None:
    session = PlanSession()
    subjects = [session.open_described(load("pidog-sac"), make_budget(ram=ram)) for ram in ("8GB", "30GB")]
    assert subjects[0].plan.ledger is subjects[1].plan.ledger
    assert subjects[0].plan.verdict != subjects[1].plan.verdict


def test_a_calibration_is_taken_up(monkeypatch: pytest.MonkeyPatch) -> None:
    session = PlanSession()
    before = session.open_described(load("pidog-sac"), BUDGET).plan.deciding.expected_bytes
    torch = Constants().find("import.torch")
    larger = replace(torch, expected=torch.expected + GIB, high=torch.high + GIB)
    monkeypatch.setattr("rlmem.app.session.read_calibration", lambda: Constants(calibrated={torch.name: larger}))
    assert session.open_described(load("pidog-sac"), BUDGET).plan.deciding.expected_bytes == before + GIB


def test_a_run_has_to_be_tried_before_it_is_planned() -> None:
    with pytest.raises(DryRunMissingError, match="zoo:ppo/CartPole-v1 has to be tried"):
        PlanSession().open_dry_run("zoo:ppo/CartPole-v1", BUDGET)


def test_what_cannot_be_run_is_refused_before_it_is_tried() -> None:
    for attempt in (check_runnable, lambda target: PlanSession().try_run(target, show_nothing)):
        with pytest.raises(UsageError, match="zoo:ALGO/ENV"):
            attempt(parse_target("zoo:ppo"))


def test_a_planned_run_is_fitted_as_its_description_is() -> None:
    answer = fit_planned(PlanSession().open_described(load("pidog-sac"), BUDGET))
    assert answer.document == fit(FitRequest(target=parse_target("pidog-sac"), budget=BUDGET))
    assert [(step.name, step.changes) for step in answer.steps] == [
        (step.name, step.changes) for step in answer.document.steps
    ]
    assert answer.steps[0].diff == "+ storage: compact"


def test_a_run_that_is_only_known_as_it_is_is_not_fitted() -> None:
    form = ClosedForm()
    plan = form.plan(load("pidog-sac"), BUDGET)
    with pytest.raises(AnalysisError, match="only be planned as it is"):
        fit_planned(Subject(asked=load("pidog-sac"), plan=plan, source=form, is_changeable=False))
