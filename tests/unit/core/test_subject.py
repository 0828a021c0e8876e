"""A planned run: other limits predict nothing again, other values are predicted once."""

from __future__ import annotations

import pytest

from rlmem.app.capacity import capacity_table
from rlmem.budget import sized_budget
from rlmem.capacity import largest
from rlmem.core.plan import Budget
from rlmem.core.subject import Subject
from rlmem.errors import AnalysisError, SpecError
from rlmem.planner import ClosedForm, Planner
from rlmem.remedies.search import Search
from rlmem.rules import find, with_findings
from rlmem.sources import load
from rlmem.sources.preset import PRESETS

GB = 10**9
LARGE, SMALL = Budget(name="large", ram_bytes=512 * GB, vram_bytes=512 * GB), Budget(name="small", ram_bytes=8 * GB)


def planned(name: str = "pidog-sac", budget: Budget = LARGE) -> tuple[ClosedForm, Subject]:
    form = ClosedForm()
    return form, form.subject(load(name), budget)


@pytest.mark.parametrize("name", PRESETS)
def test_another_limit_predicts_nothing_again_and_gives_the_same_plan(name: str) -> None:
    form, subject = planned(name)
    assert form.predictions == 1
    smaller = subject.under(SMALL)
    assert form.predictions == 1
    other = ClosedForm().subject(load(name), SMALL).plan
    assert (smaller.plan.peaks, smaller.plan.notes) == (other.peaks, other.notes)
    assert smaller.plan.budget is SMALL
    assert smaller.plan.ledger is subject.plan.ledger
    assert smaller.under(LARGE).plan == subject.plan


def test_a_changed_run_is_predicted_once_whoever_asks() -> None:
    form, subject = planned()
    assert subject.changed({"n_envs": 2}) == subject.having({"n_envs": 2}).plan
    assert subject.under(SMALL).changed({"n_envs": 2}).budget is SMALL
    assert form.predictions == 2
    largest(subject.asked, "n_envs", subject.under(SMALL).plan_of)
    before = form.predictions
    largest(subject.asked, "n_envs", subject.under(SMALL).plan_of)
    assert form.predictions == before


def test_rules_and_remedies_predict_the_same_changes_once() -> None:
    form, subject = planned(budget=SMALL)
    found = find(subject)
    before = form.predictions
    assert with_findings(subject).plan.findings == found
    assert form.predictions == before
    Search(subject).fit()
    fitted = form.predictions
    Search(subject).fit()
    assert form.predictions == fitted > before


def test_a_subject_has_no_findings_until_somebody_asks() -> None:
    form, subject = planned(budget=SMALL)
    assert (subject.plan.findings, form.predictions) == ((), 1)
    assert with_findings(subject, codes=("MEM101",)).plan.findings
    assert Planner(SMALL).plan(load("pidog-sac")).findings == find(subject)


def test_what_changes_save_is_a_difference_of_two_plans() -> None:
    _, subject = planned()
    before, after = subject.plan.top("ram"), subject.changed({"buffer_size": 1000}).top("ram")
    assert before is not None
    assert after is not None
    assert subject.saving({"buffer_size": 1000}) == before.expected_bytes - after.expected_bytes > 0
    assert subject.saving({"buffer_size": 10**6}) == 0


def test_a_change_that_the_framework_refuses_saves_nothing_and_cannot_be_planned() -> None:
    _, subject = planned()
    with pytest.raises(SpecError):
        subject.changed({"algorithm": "reinforce"})
    assert subject.saving({"algorithm": "reinforce"}) == 0


def test_a_run_that_is_only_known_as_it_is_is_not_changed() -> None:
    form, subject = planned()
    fixed = Subject(asked=subject.asked, plan=subject.plan, source=form, is_changeable=False)
    with pytest.raises(AnalysisError, match="can only be planned as it is"):
        fixed.changed({"n_envs": 2})
    assert fixed.under(SMALL).plan.budget is SMALL


def test_a_capacity_table_predicts_each_value_once_for_all_machines() -> None:
    form, subject = planned()
    values = (100_000, 200_000, 300_000)
    capacity_table([subject.under(sized_budget(f"{size}GB", "ram")) for size in range(64, 72)], "buffer_size", values)
    counted = form.predictions
    tables = ClosedForm()
    first = tables.subject(load("pidog-sac"), LARGE)
    for size in range(64, 72):
        capacity_table([first.under(sized_budget(f"{size}GB", "ram"))], "buffer_size", values)
    assert counted == tables.predictions
    capacity_table([subject.under(sized_budget("64GB", "ram"))], "buffer_size", values)
    assert form.predictions == counted
