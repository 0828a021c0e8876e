"""Runs on nodes: the placement decides, and the run is predicted once for all of them."""

from __future__ import annotations

import pytest

from rlmem.app.place import place, plan_on_nodes
from rlmem.cluster.nodes import parse_nodes
from rlmem.core.plan import Budget
from rlmem.core.subject import Subject
from rlmem.errors import UsageError
from rlmem.planner import ClosedForm
from rlmem.sources import load


def planned(name: str, *sets: str) -> tuple[ClosedForm, Subject]:
    form = ClosedForm()
    return form, form.subject(load(name, sets), Budget(name="nodes"))


@pytest.mark.parametrize(
    ("nodes", "verdict", "code"), [("4x64GB", "fits", 0), ("2x8GB", "does-not-fit", 1), ("8GB + 64GB", "fits", 0)]
)
def test_the_plan_has_the_verdict_of_its_placement(nodes: str, verdict: str, code: int) -> None:
    _, subject = planned("pidog-sac")
    found, placement = plan_on_nodes(subject, parse_nodes(nodes), margin=0.1)
    assert (found.plan.verdict, found.plan.exit_code, found.plan.trials) == (verdict, code, placement.trials)
    assert found.plan.budget.name in nodes
    assert subject.plan.trials is None


def test_no_node_makes_the_run_predicted_again() -> None:
    form, subject = planned("pidog-sac-vector")
    place(subject, parse_nodes("1000x(64GB,16cpu)"), margin=0.1)
    subject.under(Budget(name="node", ram_bytes=10**9))
    assert form.predictions == 1
    plan_on_nodes(subject, parse_nodes("4x64GB"), margin=0.1)
    others = form.predictions  # of changed runs, for findings
    plan_on_nodes(subject, parse_nodes("4x64GB"), margin=0.1)
    assert form.predictions == others


def test_a_run_that_is_only_known_as_it_is_is_not_divided() -> None:
    form, subject = planned("drone-swarm")
    fixed = Subject(asked=subject.asked, plan=subject.plan, source=form, is_changeable=False)
    with pytest.raises(UsageError, match="--shard is for runs that can be planned again"):
        place(fixed, parse_nodes("16GB"), margin=0.1, shard="agents")
