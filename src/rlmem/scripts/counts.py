"""Where the number behind an array's size is written, whatever it is called.

It is followed from the call that allocates, through names, arguments, attributes, fields, options, keys of dicts and of YAML
files, to the literals it may come from. Only literals of the value that was seen in the run count; what is found is tried by
running the changed script, so that a wrong one is never proposed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from rlmem.core.edits import Edit
from rlmem.scripts.options import aliases, declarations, default_of, given_numbers, is_option, plain
from rlmem.scripts.script import Script
from rlmem.scripts.settings_files import Setting, numbers_in
from rlmem.scripts.values import UNKNOWN
from rlmem.scripts.walk import Binding, Function

#: A chain longer than this is somebody's joke.
_DEPTH = 40
#: Numbers below this are sizes of a network or of an observation rather than counts, where arithmetic hides the value.
_LEAST = 100
#: How long a run is, and not how much it keeps.
_LENGTH = re.compile(r"total|timestep|max_steps|n?_?iterations|n?_?updates|episodes|epochs", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """A number of a run, and where it is written; without a path it is an argument of the command line, ``at`` its place."""

    name: str
    value: int
    path: Path | None = None
    line: int = 0
    start: int = 0
    end: int = 0
    text: str = ""
    at: int = 0
    #: Written where the array is allocated: the same number stands in other places too.
    inline: bool = False

    @property
    def word(self) -> str:
        """Its own name: of an option without dashes, of an attribute without the object."""
        return plain(self.name.split(" in ")[0].strip('"'))

    @property
    def place(self) -> str:
        """Where a reader finds it."""
        return f"{self.path.name}, line {self.line}" if self.path else "the command line"

    def written(self, value: int) -> str:
        """Another number the way this one is written."""
        return f"{value:_}" if "_" in self.text else str(value)

    def edit(self, value: int) -> Edit:
        """Another number in its place."""
        return Edit(start=self.start, end=self.end, text=self.written(value))


#: Where a value may come from: the script, the expression (or a number found elsewhere), its name, and whether arithmetic is
#: between the two.
Step: TypeAlias = "tuple[Script, ast.expr | Count, str, bool]"


class Counts:
    """The follower of one run: its scripts, its files of settings and its command line."""

    def __init__(self, scripts: Sequence[Script], settings: Sequence[tuple[Path, str]], args: Sequence[str]) -> None:
        self.scripts, self.args = scripts, tuple(args)
        self.settings = tuple(row for path, text in settings for row in numbers_in(path, text))
        self._seen: set[tuple[int, bool]] = set()
        self._values: frozenset[int] = frozenset()

    def of_array(self, path: str, line: int, shape: Sequence[int]) -> tuple[Count, ...]:
        """Numbers that decide how many rows an array has that was allocated in a line."""
        rows = max(shape[:2], default=0)
        wanted = {rows, shape[0] * shape[1] if len(shape) > 1 else rows}
        script = next((one for one in self.scripts if Path(one.path).resolve() == Path(path).resolve()), None)
        if script is None or rows <= 1:
            return ()
        inside = [call for call in script.calls if _covers(script.statement_of(call), line) and _covers(call, line)]
        found = [count for call in inside for count in self._arguments(script, call, wanted)]
        spans = [(script.span(call), Path(script.path).resolve()) for call in inside]
        return _once(
            replace(count, inline=True)
            if any(count.path == file and start <= count.start < end for (start, end), file in spans)
            else count
            for count in found
        )

    def of_capacity(self, capacity: int) -> tuple[Count, ...]:
        """Numbers that decide how many items a deque or a list keeps."""
        return _once(
            count
            for script in self.scripts
            for expr in _capacities(script)
            for count in self._from(script, expr, {capacity})
        )

    def _arguments(self, script: Script, call: ast.Call, wanted: set[int]) -> Iterator[Count]:
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            for expr in _sizes(script, given):
                yield from self._from(script, expr, wanted)

    def _from(self, script: Script, expr: ast.expr, wanted: set[int]) -> tuple[Count, ...]:
        self._seen, self._values = set(), frozenset(wanted)
        found = list(self._follow(script, expr, "", free=False, depth=0))
        # Of several numbers that arithmetic brings together, the largest is the count.
        free = max((count.value for count in found if count.value not in wanted), default=0)
        return tuple(count for count in found if count.value in wanted or count.value == free)

    def _follow(self, script: Script, expr: ast.expr, name: str, *, free: bool, depth: int) -> Iterator[Count]:
        if depth > _DEPTH or (id(expr), free) in self._seen or _LENGTH.search(name):
            return
        self._seen.add((id(expr), free))
        number = _number(script, expr)
        if number is not None:
            if number in self._values or (free and number >= _LEAST):
                yield self._count(script, expr, name, number)
            return
        for other, inner, called, loose in self._steps(script, expr, name):
            if isinstance(inner, Count):
                if inner.value in self._values or (free and inner.value >= _LEAST):
                    yield inner
            else:
                yield from self._follow(other, inner, called or name, free=free or loose, depth=depth + 1)

    def _count(self, script: Script, literal: ast.expr, name: str, value: int) -> Count:
        start, end = script.span(literal)
        line = script.source.position(start)[0]
        text = script.segment(literal)
        path = Path(script.path).resolve()
        return Count(name=name or text, value=value, path=path, line=line, start=start, end=end, text=text)

    def _steps(self, script: Script, expr: ast.expr, name: str) -> Iterator[Step]:
        """Where a value may come from: the script, the expression (or a number found elsewhere), its name, and whether
        arithmetic is between the two."""
        match expr:
            case ast.Name():
                yield from self._name(script, expr)
            case ast.Attribute():
                yield from self._attribute(script, expr)
            case ast.Subscript(value=holder, slice=ast.Constant(value=str() as key)):
                found = script.definition(expr)
                if found is not expr:
                    yield script, found, f'"{key}"', False
                yield from self._named(key, attribute=False)
                yield script, holder, f'"{key}"', False
            case ast.Subscript(value=ast.Tuple() | ast.List() as holder):
                yield from ((script, item, name, True) for item in holder.elts)
            case ast.BinOp(left=left, right=right):
                yield from ((script, side, name, True) for side in (left, right))
            case ast.UnaryOp(operand=inner) | ast.NamedExpr(value=inner):
                yield script, inner, name, False
            case ast.IfExp(body=body, orelse=orelse):
                yield from ((script, side, name, False) for side in (body, orelse))
            case ast.BoolOp(values=values):
                yield from ((script, side, name, False) for side in values)
            case ast.Call():
                yield from self._call(script, expr, name)

    def _call(self, script: Script, call: ast.Call, name: str) -> Iterator[Step]:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "get" and call.args:
            key = call.args[0]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield from self._named(key.value, attribute=False)
                if len(call.args) > 1:
                    yield script, call.args[1], f'"{key.value}"', False
                return
        leaf = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        same = leaf in ("int", "float", "round", "abs", "min", "max")
        for other in self.scripts:
            for function in other.functions:
                if getattr(function, "name", "") == leaf:
                    for back in other.walked.returns.get(function, ()):
                        if back.value is not None:
                            yield other, back.value, name, False
        for given in (*call.args, *(keyword.value for keyword in call.keywords)):
            yield script, given, name, not same

    def _name(self, script: Script, expr: ast.Name) -> Iterator[Step]:
        found = script.meaning.lookup(expr.id, expr)
        for binding in found[1] if found else ():
            yield from self._bound(script, expr.id, binding)

    def _bound(self, script: Script, name: str, binding: Binding) -> Iterator[Step]:
        if binding.kind == "assign" and binding.value is not None:
            value: ast.expr | None = binding.value
            if binding.index is not None:
                several = isinstance(value, (ast.Tuple, ast.List)) and binding.index < len(value.elts)
                value = value.elts[binding.index] if several and isinstance(value, (ast.Tuple, ast.List)) else None
            if value is not None:
                yield script, value, name, False
        elif binding.kind == "import":
            other = script.meaning.abroad(binding.dotted)
            if other is not None:
                yield from self._bound(other[0], name, other[1])
        elif binding.kind == "parameter" and isinstance(binding.node, ast.arg):
            yield from self._parameter(script, binding, binding.node)

    def _parameter(self, script: Script, binding: Binding, argument: ast.arg) -> Iterator[Step]:
        """What the calls give for a parameter, options of that name, and its default."""
        name = argument.arg
        above = script.parent(argument)
        function = script.parent(above) if above is not None else None
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return
        for other, call, skipped in self._calls(script, function):
            given = other.argument(call, name, _position(function, name, skipped))
            if given is not None:
                yield other, given, name, False
        if function.decorator_list or any(_passes(call, function.name) for call in script.calls):
            yield from self._named(name, attribute=True)
        if binding.value is not None:
            yield script, binding.value, name, False

    def _calls(self, script: Script, function: Function) -> Iterator[tuple[Script, ast.Call, bool]]:
        """Calls of a function by its name, of a class for its constructor; whether ``self`` is not among their arguments."""
        owner = script.parent(function)
        is_method = isinstance(owner, ast.ClassDef)
        name = (
            owner.name
            if isinstance(owner, ast.ClassDef) and function_name(function) == "__init__"
            else function_name(function)
        )
        for other in self.scripts:
            for call in other.calls:
                leaf = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                inherits = leaf == "__init__" and function_name(function) == "__init__" and is_method
                if leaf == name or inherits or _made_by_subclass(other, leaf, name):
                    yield other, call, is_method

    def _attribute(self, script: Script, expr: ast.Attribute) -> Iterator[Step]:
        dotted = script.qualified(expr)
        abroad = script.meaning.abroad(dotted) if dotted else None
        if abroad is not None:
            yield from self._bound(abroad[0], expr.attr, abroad[1])
            return
        yield from self._named(expr.attr, attribute=True)

    def _named(self, name: str, *, attribute: bool) -> Iterator[Step]:
        """Everything that has a name: what the command line gives, settings, attributes and fields, options, keywords, keys."""
        declared = [pair for script in self.scripts for pair in declarations(script, name)]
        spelled = {name, *(alias for _, call in declared for alias in aliases(call))}
        given = [count for count in self._on_the_command_line(spelled) if count.value in self._values]
        if given:  # it decides, whatever stands elsewhere
            yield from ((self.scripts[0], count, "", False) for count in given)
            return
        same = name.replace("-", "_")
        rows = (row for row in self.settings if row.key.replace("-", "_") == same)
        yield from ((self.scripts[0], _setting(row), "", False) for row in rows)
        for script in self.scripts:
            if attribute:
                yield from self._attributes(script, name)
        for script, call in declared:
            default = default_of(script, call)
            if default is not None:
                yield script, default, f"--{name.replace('_', '-')}", False
        for script in self.scripts:
            values = (keyword.value for call in script.calls for keyword in call.keywords if keyword.arg == name)
            yield from ((script, value, name, False) for value in values if not is_option(script.parent(value)))
            yield from ((script, value, f'"{name}"', False) for value in _under_key(script, name))

    def _attributes(self, script: Script, name: str) -> Iterator[Step]:
        """What is assigned to an attribute, and to the field of a class."""
        for target, binding in script.walked.attribute_values.get(name, ()):
            if binding.kind == "assign":
                yield from self._bound(script, f"{ast.unparse(target.value)}.{name}", binding)
        for owner in script.classes:
            for binding in script.walked.scopes[owner].bindings.get(name, ()):
                if binding.kind == "assign":
                    yield from self._bound(script, f"{owner.name}.{name}", binding)

    def _on_the_command_line(self, names: set[str]) -> Iterator[Count]:
        for option, at, text, number in given_numbers(self.args):
            if plain(option) in {plain(name) for name in names}:
                yield Count(name=option, value=number, text=text, at=at)


def with_argument(args: Sequence[str], count: Count, value: int) -> tuple[str, ...]:
    """A command line with another number in the place of one it gives."""
    option, equals, _ = args[count.at].partition("=")
    changed = f"{option}={count.written(value)}" if equals else count.written(value)
    return (*args[: count.at], changed, *args[count.at + 1 :])


def _setting(row: Setting) -> Count:
    name = f"{row.dotted} in {row.path.name}"
    return Count(name=name, value=row.value, path=row.path, line=row.line, start=row.start, end=row.end, text=row.text)


def _under_key(script: Script, name: str) -> Iterator[ast.expr]:
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name)


def _number(script: Script, expr: ast.expr) -> int | None:
    """The value of a literal, or of arithmetic on literals: ``1_000_000``, ``int(1e6)``, ``2**20``."""
    if script.literal(expr) is not expr:
        return None
    value = script.value(expr)
    if value is UNKNOWN or isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        return None
    return int(value)


def _sizes(script: Script, given: ast.expr) -> Iterator[ast.expr]:
    """The parts of an argument that may be a size: of a shape, of shapes that are added, of a list that is repeated."""
    match given:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from _sizes(script, element)
        case ast.Starred(value=value):
            yield from _sizes(script, value)
        case ast.BinOp(left=ast.Tuple() | ast.List() as left, right=right):
            yield from _sizes(script, left)
            yield from _sizes(script, right)
        case ast.Name() | ast.Attribute():
            found = script.definition(given)
            added = isinstance(found, ast.BinOp) and isinstance(found.left, (ast.Tuple, ast.List))
            if added or isinstance(found, (ast.Tuple, ast.List)):
                yield from _sizes(script, found)
            else:
                yield given
        case _:
            yield given


def _capacities(script: Script) -> Iterator[ast.expr]:
    """What bounds containers: ``maxlen``, what a length is compared with, what a position is taken modulo."""
    for call in script.calls:
        leaf = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if leaf == "deque":
            given = script.argument(call, "maxlen", 1)
            if given is not None:
                yield given
    for node in ast.walk(script.tree):
        match node:
            case ast.Compare(left=left, comparators=[right]) if _is_length(left) or _is_length(right):
                yield right if _is_length(left) else left
            case ast.BinOp(op=ast.Mod(), right=right) | ast.BinOp(left=ast.List(), op=ast.Mult(), right=right):
                yield right


def _is_length(expr: ast.expr) -> bool:
    return isinstance(expr, ast.Call) and isinstance(expr.func, ast.Name) and expr.func.id == "len"


def _covers(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", 0) or 0)


def _position(function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, is_method: bool) -> int | None:
    names = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
    if name not in names:
        return None
    bound = is_method and not any(getattr(item, "id", "") == "staticmethod" for item in function.decorator_list)
    return names.index(name) - bound


def _passes(call: ast.Call, name: str) -> bool:
    """Whether a call is given a function: ``tyro.cli(main)``, ``fire.Fire(main)``, ``typer.run(main)``."""
    return any(isinstance(given, ast.Name) and given.id == name for given in call.args)


def _made_by_subclass(script: Script, leaf: str, name: str) -> bool:
    owner = next((one for one in script.classes if one.name == leaf), None)
    bases = owner.bases if owner is not None else ()
    return any(getattr(base, "id", getattr(base, "attr", "")) == name for base in bases)


def function_name(function: Function) -> str:
    """The name of a function; none of a lambda."""
    return str(getattr(function, "name", ""))


def _once(counts: Iterator[Count]) -> tuple[Count, ...]:
    """Each place once, by the name it was first met under."""
    found: dict[tuple[Path | None, int, int], Count] = {}
    for count in counts:
        found.setdefault((count.path, count.start, count.at), count)
    return tuple(found.values())
