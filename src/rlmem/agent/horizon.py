"""How many environment steps the loops around a step make: ``for update in range(500): for step in range(2048): …``.

Only counts that are plain to see are believed: ranges, and sequences whose length is known. A ``while`` says nothing.
"""

import ast
import inspect
import operator
import sys
import textwrap

from . import roots

_WORDS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_CALLS = {"int": int, "len": len, "min": min, "max": max, "round": round, "float": float}
#: What goes through its argument once, and what counts up to it.
_THROUGH = frozenset(("enumerate", "tqdm", "track", "reversed", "list", "iter"))
_COUNTING = frozenset(("range", "trange"))
_MADE = frozenset(("<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>"))


class UnknownError(Exception):
    """A number that cannot be read off."""


class Horizon:
    """Collects, step by step, the loops that environment steps are made in."""

    def __init__(self):
        self.chains = {}
        self._trees = {}

    def seen(self, frame):
        """A step was made by this frame, and those that called it."""
        places, count = [], 1
        while frame is not None:
            around = self._loops(frame)
            for loop in around:
                places.append((frame.f_code.co_filename, loop.lineno))
                count = None if count is None else _times(count, loop, frame)
            if frame.f_code.co_name in _MADE:
                count = None
            frame = frame.f_back
        self.chains[tuple(places)] = count

    @property
    def steps(self):
        """Environment steps of the whole run; ``None`` when it is not known."""
        counts = list(self.chains.values())
        return sum(counts) if counts and None not in counts else None

    def _loops(self, frame):
        """The loops of a frame's own function that it is in, innermost first."""
        tree = self._tree(frame)
        found = []
        if tree is not None:
            _descend(tree, frame.f_lineno, found)
        return reversed(found)

    def _tree(self, frame):
        code = frame.f_code
        if code not in self._trees:
            self._trees[code] = _parsed(frame)
        return self._trees[code]


def _parsed(frame):
    """The function a code object was made from, alone (a library's whole file would take megabytes), or the script."""
    name = frame.f_code.co_name
    if name.startswith("<") and name != "<module>":
        return None
    try:
        lines, first = inspect.getsourcelines(frame)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, SyntaxError, ValueError, TypeError):
        return None
    if name == "<module>":
        return tree
    ast.increment_lineno(tree, first - 1)
    return tree.body[0] if tree.body else None


def _descend(node, line, found):
    """Loops whose bodies have a line, outermost first; functions within are frames of their own."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for part in getattr(node, name, None) or ():
            if not (part.lineno <= line <= part.end_lineno) if hasattr(part, "lineno") else not _has(part, line):
                continue
            if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            if isinstance(part, (ast.For, ast.AsyncFor, ast.While)) and _in_body(part, line):
                found.append(part)
            _descend(part, line, found)


def _has(part, line):
    return any(item.lineno <= line <= item.end_lineno for item in getattr(part, "body", ()))


def _in_body(loop, line):
    return loop.body[0].lineno <= line <= loop.body[-1].end_lineno


def _times(count, loop, frame):
    try:
        if isinstance(loop, ast.For):
            return count * _length(loop.iter, _names(loop.iter, frame))
    except Exception:  # whatever the names mean, it is no number
        pass
    return None


def _names(node, frame):
    """The variables of an expression, by name; under a debugger they are not asked for."""
    wanted = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    found = {name: value for name, value in frame.f_globals.items() if name in wanted}
    is_function, old = frame.f_code.co_flags & inspect.CO_OPTIMIZED, sys.version_info < (3, 13)
    if not is_function:
        return found
    if old and sys.gettrace() is not None:
        raise UnknownError
    found.update((name, value) for name, value in roots.variables(frame).items() if name in wanted)
    return found


def _length(node, names):
    """How often a loop over an expression goes round."""
    if isinstance(node, ast.Call) and node.args:
        name = getattr(node.func, "id", getattr(node.func, "attr", None))
        if name in _COUNTING:
            return len(range(*(int(_value(part, names)) for part in node.args)))
        if name in _THROUGH:
            return _length(node.args[0], names)
        raise UnknownError
    if isinstance(node, (ast.List, ast.Tuple)):
        return len(node.elts)
    value = _value(node, names)
    if type(value) in (list, tuple, range, dict, str):
        return len(value)
    raise UnknownError


def _value(node, names):
    """An expression of constants, variables and their fields, with what the variables are now; nothing is called."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.Attribute):
        holder = _value(node.value, names)
        for table in [getattr(holder, "__dict__", {}), *(vars(cls) for cls in type(holder).__mro__)]:
            if node.attr in table:
                return table[node.attr]
        raise UnknownError
    if isinstance(node, ast.Subscript):
        holder = _value(node.value, names)
        if isinstance(holder, (dict, list, tuple)):
            return holder[_value(node.slice, names)]
        raise UnknownError
    if isinstance(node, ast.BinOp):
        return _WORDS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and not node.keywords and getattr(node.func, "id", None) in _CALLS:
        return _CALLS[node.func.id](*(_value(part, names) for part in node.args))
    raise UnknownError
