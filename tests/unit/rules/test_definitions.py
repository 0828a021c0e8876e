"""Which assignments a use of a variable may see."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from rlmem.rules.definitions import Definitions
from rlmem.scripts.reading import parse_script

CASES = {
    "the last of a row": ("x = 1\nx = 2\nuse(x)", [2]),
    "a branch may be passed by": ("x = 1\nif a:\n    x = 2\nuse(x)", [1, 2]),
    "every branch gives one": ("x = 1\nif a:\n    x = 2\nelif b:\n    x = 3\nelse:\n    x = 4\nuse(x)", [2, 3, 4]),
    "a branch that leaves": ("x = 1\nif a:\n    x = 2\n    raise ValueError\nuse(x)", [1]),
    "a round before": ("x = 1\nfor i in a:\n    use(x)\n    x = 2", [1, 2]),
    "a loop that may not run": ("x = 1\nwhile a:\n    x = 2\nuse(x)", [1, 2]),
    "a loop that is broken": (
        "x = 1\nfor i in a:\n    if b:\n        x = 2\n        break\n    x = 3\nuse(x)",
        [1, 2, 3],
    ),
    "with always runs": ("x = 1\nwith a:\n    x = 2\nuse(x)", [2]),
    "try may stop anywhere": ("x = 1\ntry:\n    x = 2\nexcept E:\n    use(x)", [1, 2]),
    "a pair": ("x, y = 1, 2\nuse(x)", [1]),
    "a function of its own": ("x = 1\ndef f():\n    x = 2\nuse(x)", [1]),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_a_use_sees_the_values_that_nothing_replaces_on_the_way(text: str, expected: list[int]) -> None:
    script = parse_script(text)
    use = next(load for load in script.walked.loads["x"])
    found = Definitions(script, script.tree).reaching(use)
    assert sorted(each.value.value for each in found if isinstance(each.value, ast.Constant)) == expected


def test_a_parameter_is_seen_until_it_is_replaced() -> None:
    text = dedent("""
        def f(x):
            use(x)
            x = 2
            use(x)
    """)
    script = parse_script(text)
    first, second = (Definitions(script, script.functions[0]).reaching(use) for use in script.walked.loads["x"])
    assert [type(each.node) for each in (*first, *second)] == [ast.arg, ast.Assign]
