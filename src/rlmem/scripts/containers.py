"""Whether a dict or a list is still what it was written as: who writes to it, and under which keys."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlmem.scripts.script import Script

#: Methods that change what they are called on.
_CHANGING = frozenset(
    {
        "update",
        "setdefault",
        "pop",
        "popitem",
        "clear",
        "append",
        "extend",
        "insert",
        "remove",
        "sort",
        "reverse",
        "add",
    }
)
_DEPTH = 6


class Containers:
    """Answers about the containers of one script."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self._known: dict[ast.expr, frozenset[object] | None] = {}

    def written(self, expr: ast.expr) -> frozenset[object] | None:
        """The constant keys somebody writes to; ``None`` when anything may have been changed."""
        if expr not in self._known:
            self._known[expr] = None  # a container that is its own alias
            self._known[expr] = self._written(expr, 0)
        return self._known[expr]

    def _written(self, expr: ast.expr, depth: int) -> frozenset[object] | None:
        if not isinstance(expr, (ast.Name, ast.Attribute)):
            return frozenset()
        if depth > _DEPTH:
            return None
        keys: set[object] = set()
        for use in self._uses(expr):
            found = self._by(use, depth)
            if found is None:
                return None
            keys |= found
        if isinstance(expr, ast.Name) and (source := self._source(expr)) is not None:
            found = self._written(source, depth + 1)
            if found is None:
                return None
            keys |= found
        return frozenset(keys)

    def _uses(self, expr: ast.Name | ast.Attribute) -> tuple[ast.expr, ...]:
        if isinstance(expr, ast.Name):
            return self.script.uses(expr)
        return tuple(self.script.walked.attributes.get(expr.attr, ()))

    def _source(self, expr: ast.Name) -> ast.expr | None:
        """What a name is another name of."""
        binding = self.script.meaning.binding(expr)
        value = binding.value if binding is not None and binding.kind == "assign" and binding.index is None else None
        return value if isinstance(value, (ast.Name, ast.Attribute)) else None

    def _by(self, use: ast.expr, depth: int) -> frozenset[object] | None:
        """What one use does to a container."""
        parent = self.script.parent(use)
        if isinstance(parent, ast.Subscript) and parent.value is use:
            if isinstance(parent.ctx, ast.Load) and not self._is_changed_within(parent):
                return frozenset()
            return frozenset({parent.slice.value}) if isinstance(parent.slice, ast.Constant) else None
        if isinstance(parent, ast.Attribute) and parent.attr in _CHANGING:
            return None
        if isinstance(parent, ast.AugAssign) and parent.target is use:
            return None
        if isinstance(parent, ast.Call) and use in parent.args and self.script.function_called(parent) is not None:
            return None  # a function of this file may write to it
        if isinstance(parent, ast.Assign) and parent.value is use:
            keys: frozenset[object] = frozenset()
            for target in parent.targets:
                found = self._alias(target, depth)
                if found is None:
                    return None
                keys |= found
            return keys
        return frozenset()

    def _is_changed_within(self, item: ast.Subscript) -> bool:
        """``d["a"]["b"] = 2`` and ``d["a"].append(1)`` write to what lies in ``d``."""
        above = self.script.parent(item)
        if isinstance(above, ast.Subscript) and above.value is item:
            return not isinstance(above.ctx, ast.Load) or self._is_changed_within(above)
        return isinstance(above, ast.Attribute) and above.attr in _CHANGING

    def _alias(self, target: ast.expr, depth: int) -> frozenset[object] | None:
        """What is done through another name."""
        if isinstance(target, ast.Attribute):
            return self._merged(tuple(self.script.walked.attributes.get(target.attr, ())), depth + 1)
        if isinstance(target, ast.Name):
            found = self.script.meaning.lookup(target.id, target)
            if found is None or any(binding.kind == "augment" for binding in found[1]):
                return None
            uses = tuple(
                node
                for node in self.script.walked.loads.get(target.id, ())
                if self.script.scope_of(node) is self.script.scope_of(target)
            )
            return self._merged(uses, depth + 1)
        return None

    def _merged(self, uses: tuple[ast.expr, ...], depth: int) -> frozenset[object] | None:
        if depth > _DEPTH:
            return None
        keys: set[object] = set()
        for use in uses:
            found = self._by(use, depth)
            if found is None:
                return None
            keys |= found
        return frozenset(keys)
