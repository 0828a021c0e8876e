"""Which assignments of a variable may have given it the value that a use of it sees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from rlmem.scripts import Script

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITHS = (ast.With, ast.AsyncWith)
_OPENS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_JUMPS = (ast.Break, ast.Continue, ast.Return, ast.Raise)
_TRIES: tuple[type[ast.AST], ...] = (ast.Try, *([ast.TryStar] if hasattr(ast, "TryStar") else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One place where a variable gets a value; ``value`` is the expression, where one gives it."""

    node: ast.AST
    value: ast.expr | None = None


class Definitions:
    """The definitions that reach a use, within one function or the module's own lines.

    It is on the safe side: one that cannot be shown to be replaced on the way is there.
    """

    def __init__(self, script: Script, scope: ast.AST) -> None:
        self.script, self.scope = script, scope
        self._made: dict[str, dict[ast.AST, list[Definition]]] = {}  # by name and statement, in its own lines
        self._inside: dict[tuple[ast.AST, str], set[ast.AST]] = {}  # statements with a definition, by what is around
        self._places: dict[ast.AST, tuple[list[ast.stmt], int]] = {}
        self._number(scope)
        for node in _own(scope):
            self._number(node)
            for name, value in _bound(node):
                statement = node if isinstance(node, (ast.stmt, ast.ExceptHandler)) else self._statement(node)
                self._made.setdefault(name, {}).setdefault(statement, []).append(Definition(node=node, value=value))
                for around in (statement, *script.ancestors(statement)):
                    if around is scope:
                        break
                    self._inside.setdefault((around, name), set()).add(statement)

    def reaching(self, use: ast.Name) -> tuple[Definition, ...]:
        """The definitions that may have given a use its value; none where the variable comes from elsewhere."""
        found: dict[Definition, None] = {}
        at: ast.AST = self._statement(use)
        if isinstance(at, ast.While):
            self._add_all(at.body, use.id, found)
        while not self._before(at, use.id, found):
            above = self.script.parent(at)
            if above is None or above is self.scope:
                self._parameter(use.id, found)
                break
            if self._entered(above, at, use.id, found):
                break
            at = above
        return tuple(found)

    def replaced_between(self, first: ast.stmt, last: ast.stmt, name: str) -> bool:
        """Whether something between two statements of one block gives the variable another value, or leaves the block."""
        (block, start), (_, end) = self._places[first], self._places[last]
        return any(
            (each, name) in self._inside or any(isinstance(node, _JUMPS) for node in ast.walk(each))
            for each in block[start + 1 : end]
        )

    def follows(self, first: ast.AST, last: ast.AST) -> bool:
        """Whether two statements stand in one block, in this order."""
        (block, start), (other, end) = self._places.get(first, ([], 0)), self._places.get(last, ([], 0))
        return block is other and start < end

    def _number(self, node: ast.AST) -> None:
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                self._places.update((each, (block, index)) for index, each in enumerate(block))

    def _statement(self, node: ast.AST) -> ast.AST:
        return self.script.statement_of(node)

    def _before(self, at: ast.AST, name: str, found: dict[Definition, None]) -> bool:
        """Adds what the statements before one in its block define; whether one of them always does."""
        block, index = self._places.get(at, ([], 0))
        return any(self._passed(block[each], name, found) for each in range(index - 1, -1, -1))

    def _entered(self, above: ast.AST, at: ast.AST, name: str, found: dict[Definition, None]) -> bool:
        """Adds what is defined on the way into a block."""
        if isinstance(above, _LOOPS):
            self._add_loop(above, name, found)
            return at in above.body and self._add(above, name, found)
        if isinstance(above, ast.Match):
            self._add(above, name, found)
        if isinstance(above, _TRIES) and at not in above.body:  # type: ignore[attr-defined]
            self._add_all(list(ast.iter_child_nodes(above)), name, found)
        return isinstance(above, (*_WITHS, ast.ExceptHandler)) and self._add(above, name, found)

    def _passed(self, statement: ast.stmt, name: str, found: dict[Definition, None]) -> bool:
        """Adds what may be defined when a statement is over; whether it always is."""
        if (statement, name) not in self._inside:
            return False
        if isinstance(statement, ast.If):
            return self._branches(statement, name, found)
        if isinstance(statement, _LOOPS):
            self._add(statement, name, found)
            self._add_loop(statement, name, found)
            return False
        if isinstance(statement, _WITHS):
            return self._ended(statement.body, name, found) or self._add(statement, name, found)
        if isinstance(statement, (*_TRIES, ast.Match)):
            self._add_all([statement], name, found)
            return False
        return self._add(statement, name, found)

    def _branches(self, statement: ast.If, name: str, found: dict[Definition, None]) -> bool:
        always, rest = True, [statement]
        while len(rest) == 1 and isinstance(chosen := rest[0], ast.If):
            self._add(chosen, name, found)  # in its condition
            always &= self._ended(chosen.body, name, found)
            rest = chosen.orelse  # type: ignore[assignment]
        return self._ended(rest, name, found) and always  # type: ignore[arg-type]

    def _ended(self, block: list[ast.stmt], name: str, found: dict[Definition, None]) -> bool:
        """Adds what may be defined at the end of a block; whether it always is, or the end is never reached."""
        if block and isinstance(block[-1], (ast.Return, ast.Raise)):
            return True
        return any(self._passed(each, name, found) for each in reversed(block))

    def _add_loop(self, loop: ast.For | ast.AsyncFor | ast.While, name: str, found: dict[Definition, None]) -> None:
        """What a round of a loop leaves to the next one and to what follows."""
        if (loop, name) not in self._inside:
            return
        if any(isinstance(node, (ast.Break, ast.Continue)) for node in ast.walk(loop)):
            self._add_all(loop.body, name, found)
        else:
            self._ended(loop.body, name, found)

    def _add(self, statement: ast.AST, name: str, found: dict[Definition, None]) -> bool:
        made = self._made.get(name, {}).get(statement, [])
        found.update(dict.fromkeys(made))
        return any(not isinstance(each.node, ast.NamedExpr) for each in made)

    def _add_all(self, nodes: list[ast.AST] | list[ast.stmt], name: str, found: dict[Definition, None]) -> None:
        for node in nodes:
            for statement in self._inside.get((node, name), ()):
                self._add(statement, name, found)

    def _parameter(self, name: str, found: dict[Definition, None]) -> None:
        given = getattr(self.scope, "args", None)
        for each in ast.walk(given) if given is not None else ():
            if isinstance(each, ast.arg) and each.arg == name:
                found[Definition(node=each)] = None


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    stack = list(ast.iter_child_nodes(scope))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _OPENS):
            stack.extend(ast.iter_child_nodes(node))


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The variables that a node itself gives a value, each with the expression that does."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _targets(target, value)
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield from _targets(target, value)
        case ast.AugAssign(target=target) | ast.For(target=target) | ast.AsyncFor(target=target):
            yield from _targets(target, None)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _targets(item.optional_vars, None)
        case ast.Delete(targets=targets):
            for target in targets:
                yield from _targets(target, None)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name, None
        case (
            ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name)
        ):
            yield name, None
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name.split(".")[0], None) for alias in names)


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, None)
    elif isinstance(target, (ast.Tuple, ast.List)):
        paired = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        values = value.elts if paired and isinstance(value, (ast.Tuple, ast.List)) else [value] * len(target.elts)
        for element, given in zip(target.elts, values, strict=True):
            yield from _targets(element, given)
