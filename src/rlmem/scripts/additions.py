"""Where a program's source adds to a container: ``losses.append(loss)`` in ``train.py``, line 38."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_METHODS = frozenset(
    {"append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault", "push", "__setitem__"}
)
#: The last variable of a path, and what stands in brackets behind it: ``self.history['loss']``.
_LAST = re.compile(r"([^\W\d]\w*)((?:\[[^\]]*\])*)…?$")
_TABLES = ("dict", "Dict")
LONGEST = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """One statement that adds to a container."""

    line: int
    text: str


@lru_cache(maxsize=32)
def find_additions(source: str, path: str, kind: str = "list") -> tuple[Addition, ...]:
    """The statements of a source text that add to what a path such as ``agent.losses`` names, in order.

    Containers are told by the last word of the path, so that of several of one name all are found; what is
    added to under another name (an argument, an alias) is not.

    Args:
        source: A Python file's text; one that cannot be parsed adds nothing.
        path: An owner's name as an explanation has it.
        kind: Its type's name; assigning to an item adds to tables only.
    """
    last = _LAST.search(path)
    if last is None:
        return ()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    name, key = last[1], last[2].replace('"', "'")
    is_table = kind.rsplit(".", maxsplit=1)[-1].endswith(_TABLES)
    places = {
        node.lineno: node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call | ast.stmt)
        for target in _targets(node, is_table=is_table)
        if _is_named(target, name, key)
    }
    return tuple(Addition(line=line, text=_text(source, places[line])) for line in sorted(places))


def _targets(node: ast.AST, *, is_table: bool) -> Iterator[ast.expr]:
    """What a statement or a call adds to."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        yield node.func.value
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.BitOr):
        yield node.target
    elif isinstance(node, ast.Assign) and is_table:
        yield from (target.value for target in node.targets if isinstance(target, ast.Subscript))


def _is_named(target: ast.expr, name: str, key: str) -> bool:
    """Whether an expression is the container: by its last word, and by what is in brackets where that is a text."""
    found = ""
    while isinstance(target, ast.Subscript):
        found = f"[{ast.unparse(target.slice)}]{found}" if isinstance(target.slice, ast.Constant) else ""
        target = target.value
    if found and key and "…" not in key and found != key:
        return False
    return (isinstance(target, ast.Name) and target.id == name) or (
        isinstance(target, ast.Attribute) and target.attr == name
    )


def _text(source: str, node: ast.AST) -> str:
    text = " ".join((ast.get_source_segment(source, node) or "").split())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
