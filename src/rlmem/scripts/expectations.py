"""What a test does on purpose: calls that are expected to fail or to warn are no mistakes."""

from __future__ import annotations

import ast

from rlmem.scripts.script import Script

_EXPECTING = ("raises", "warns", "deprecated_call", "assertRaises", "assertRaisesRegex", "assertWarns")


def expected_failures(script: Script) -> frozenset[int]:
    """The lines inside ``with pytest.raises(…)`` and the like; none in a notebook."""
    lines: set[int] = set()
    for node in script.withs if not script.source.cells else ():
        calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        names = {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}
        if names & set(_EXPECTING) and node.end_lineno is not None:
            lines.update(range(node.lineno, node.end_lineno + 1))
    return frozenset(lines)
