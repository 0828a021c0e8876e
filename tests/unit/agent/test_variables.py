"""Looking at a function's variables keeps nothing alive."""

from __future__ import annotations

import sys
import weakref

from rlmem.agent import levels, roots


class Batch:
    pass


def test_what_a_function_lets_go_is_gone_after_a_look() -> None:
    kept = batch = Batch()
    gone = weakref.ref(batch)
    assert roots.variables(sys._getframe())["batch"] is kept
    levels.containers()
    del batch, kept
    assert gone() is None


def test_a_look_changes_no_variable() -> None:
    number, words = 3, ["a"]
    levels.containers()
    assert roots.variables(sys._getframe())["number"] == 3
    assert (number, words) == (3, ["a"])
