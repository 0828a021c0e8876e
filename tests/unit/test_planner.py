"""A run is predicted once, and held against as many limits as there are."""

from __future__ import annotations

from rlmem.budget import make_budget
from rlmem.planner import ClosedForm
from rlmem.sources.preset import read_preset


def test_another_limit_predicts_nothing_again() -> None:
    form, spec = ClosedForm(), read_preset("pyboy-ppo")
    budgets = [make_budget(ram="30GB", vram="16GB"), make_budget(ram="2GB"), make_budget(machine="macbook-m1-16gb")]
    plans = [form.plan(spec, budget) for budget in budgets]
    assert form.predictions == 1
    assert [plan.ledger.devices for plan in plans] == [("ram", "vram"), ("ram", "vram"), ("ram",)]
    assert [top.limit_bytes for plan in plans if (top := plan.top("ram"))] == [b.ram_bytes for b in budgets]


def test_equal_values_from_elsewhere_keep_their_own_origins() -> None:
    form, spec, budget = ClosedForm(), read_preset("pidog-sac"), make_budget(ram="30GB")
    for origin in ("one", "other"):
        plan = form.plan(spec.having({"buffer_size": 1000}, origin), budget)
        assert plan.spec.origin("buffer_size") == origin
