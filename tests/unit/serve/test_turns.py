"""Pictures go first."""

from __future__ import annotations

import threading

from rlmem.core.plan import Budget
from rlmem.planner import ClosedForm
from rlmem.serve.turns import Turns, YieldingSource
from rlmem.sources import load


def test_other_plans_wait_for_a_picture_and_the_picture_for_nobody() -> None:
    turns, order = Turns(), []
    source, budget = YieldingSource(ClosedForm(), turns), Budget(name="none")
    begun = threading.Event()

    def other() -> None:
        begun.set()
        source.plan(load("pidog-sac"), budget)
        order.append("other")

    with turns.first():
        thread = threading.Thread(target=other)
        thread.start()
        begun.wait()
        source.plan(load("pidog-sac"), budget)
        thread.join(0.2)
        assert thread.is_alive()
        order.append("picture")
    thread.join()
    assert order == ["picture", "other"]


def test_a_picture_that_fails_leaves_nobody_waiting() -> None:
    turns = Turns()
    try:
        with turns.first():
            raise ValueError
    except ValueError:
        pass
    turns.give_way()
    assert turns._pictures == 0
