"""Lists, deques and dicts that a script uses as a replay memory: what goes in, what comes out, what bounds them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from rlmem.rules.arrays import CAPACITY, STORE_CLASS
from rlmem.rules.shapes import known, number
from rlmem.scripts import UNKNOWN, Script

#: Variables that keep transitions or episodes for training.
MEMORY = re.compile(r"memory|replay|buffer|experience|transition", re.IGNORECASE)
DATA = re.compile(r"data_?set|demos|demonstration|episodes|trajector|replay|\bbuffer|memory|expert_data", re.IGNORECASE)
_SHORT = re.compile(r"(^|[._])(mem|rb|buf)$", re.IGNORECASE)
#: Methods that put something into a store.
PUTS = {
    "append",
    "appendleft",
    "push",
    "add",
    "store",
    "remember",
    "put",
    "insert",
    "add_transition",
    "store_transition",
}
_TAKES = {"pop", "popleft", "clear", "remove", "popitem", "truncate"}
_PICKS = {"sample", "choice", "choices", "randint", "permutation", "randrange", "shuffle", "integers"}
_GATES = re.compile(r"batch|warm|start|learn|min|update|train|thresh|initial|before|explor|seq", re.IGNORECASE)
_LEAST_PARTS = 3


#: A comparison with, or a remainder by, what is called a capacity.
_BOUND = re.compile(
    r"(<=?|>=?|==|%)\s*self\._?(capacity|max_?(size|len|length|memory)|buffer_size|memory_size|limit)\b"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One container: where it is made, what it is called, and everything the script does with it."""

    made: ast.expr
    text: str  # ``self.memory``
    kind: str  # deque, list, dict
    bounded: bool
    capacity: int | None
    puts: tuple[ast.AST, ...]
    owner: ast.ClassDef | None
    draws: tuple[ast.Call, ...]  # calls that pick from it at random

    @property
    def sampled(self) -> bool:
        """Whether anything is drawn from it at random."""
        return bool(self.draws)

    @property
    def is_replay(self) -> bool:
        """Whether transitions are drawn from it at random."""
        named = MEMORY.search(self.text) or (self.owner is not None and STORE_CLASS.search(self.owner.name))
        return bool(named) and self.sampled

    @property
    def name(self) -> str:
        """The variable's own name."""
        return self.text.rsplit(".", maxsplit=1)[-1]


@lru_cache(maxsize=2)
def memories(script: Script) -> tuple[Memory, ...]:
    """Every list, deque and dict that a script makes empty and then puts things into."""
    return tuple(_memories(script))


def _memories(script: Script) -> Iterator[Memory]:
    uses: dict[str, list[ast.AST]] | None = None
    for assign in script.assigns:
        targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
        text = dotted(targets[0]) if len(targets) == 1 else ""
        kind = _kind(script, assign.value) if text and assign.value is not None else ""
        if not kind or assign.value is None:
            continue
        owner = script.class_of(assign)
        if not (MEMORY.search(text) or DATA.search(text) or (owner is not None and STORE_CLASS.search(owner.name))):
            continue
        uses = _puts(script) if uses is None else uses
        puts = [use for use in uses.get(text, ()) if _same(script, assign, use, text)]
        if not puts:
            continue
        limit = _limit(script, assign.value, kind)
        checked = _checked(script, text, puts)
        capacity = number(script, limit if limit is not None else checked)
        yield Memory(
            made=assign.value,
            text=text,
            kind=kind,
            bounded=limit is not None
            or checked is not None
            or _is_ring(script, puts, owner)
            or _emptied(script, text, targets[0], assign),
            capacity=capacity,
            puts=tuple(puts),
            owner=owner,
            draws=tuple(call for call in _draws(script, text) if _same(script, assign, call, text)),
        )


def _is_ring(script: Script, puts: list[ast.AST], owner: ast.ClassDef | None) -> bool:
    """A ring in a list: a place is made with ``append(None)``, or a method compares the length with a capacity."""
    calls = [put for put in puts if isinstance(put, ast.Call) and put.args]
    if any(isinstance(call.args[0], ast.Constant) and call.args[0].value is None for call in calls):
        return True
    return owner is not None and bool(_BOUND.search(script.segment(owner)))


def _kind(script: Script, value: ast.expr) -> str:
    match value:
        case ast.List(elts=[]):
            return "list"
        case ast.Dict(keys=[]):
            return "dict"
        case ast.Call(func=ast.Name(id="list" | "dict"), args=[], keywords=[]):
            return str(ast.unparse(value.func))
        case ast.Call():
            name = script.called(value)
            if name is not None and name.leaf == "deque":
                return "deque"
            if name is not None and name.leaf in {"OrderedDict", "defaultdict"} and not value.keywords:
                return "dict"
    return ""


def _limit(script: Script, value: ast.expr, kind: str) -> ast.expr | None:
    if kind != "deque" or not isinstance(value, ast.Call):
        return None
    limit = script.argument(value, "maxlen", 1)
    return None if limit is None or known(script, limit) is None else limit


def _puts(script: Script) -> dict[str, list[ast.AST]]:
    """By the text of a variable, everything that makes it longer."""
    found: dict[str, list[ast.AST]] = {}
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in {"append", "appendleft", "extend", "insert"}:
            found.setdefault(dotted(call.func.value), []).append(call)
    for grown in script.augassigns:
        if isinstance(grown.op, ast.Add):
            found.setdefault(dotted(grown.target), []).append(grown)
    for assign in script.assigns:
        targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
        for target in targets:
            if isinstance(target, ast.Subscript) and not isinstance(target.slice, (ast.Slice, ast.Constant)):
                found.setdefault(dotted(target.value), []).append(assign)
    found.pop("", None)
    return found


def dotted(expr: ast.AST) -> str:
    """``self.memory`` for a name and attributes of it; empty for anything else."""
    names: list[str] = []
    while isinstance(expr, ast.Attribute):
        names.append(expr.attr)
        expr = expr.value
    return ".".join([expr.id, *reversed(names)]) if isinstance(expr, ast.Name) else ""


def _same(script: Script, made: ast.AST, use: ast.AST, text: str) -> bool:
    """Whether a use is of the container made there: the same class for ``self.x``, the same or an inner function else."""
    if text.startswith("self."):
        return script.class_of(made) is script.class_of(use)
    around = script.function_of(made)
    return around is None or around in script.ancestors(use)


def _checked(script: Script, text: str, puts: list[ast.AST]) -> ast.expr | None:
    """What the length is compared with, other than a batch or a warm-up."""
    for call in script.calls:
        if not (isinstance(call.func, ast.Name) and call.func.id == "len" and len(call.args) == 1):
            continue
        parent = script.parent(call)
        if dotted(call.args[0]) != text or not isinstance(parent, ast.Compare) or len(parent.comparators) != 1:
            continue
        other = parent.comparators[0] if parent.left is call else parent.left
        written = ast.unparse(other)
        if CAPACITY.search(written) or not (_GATES.search(written) or isinstance(other, ast.Constant)):
            return other
        if isinstance(other, ast.Constant) and any(_guards(script, parent, put) for put in puts):
            return other
    return None


def _guards(script: Script, test: ast.Compare, put: ast.AST) -> bool:
    function = script.function_of(put)
    return function is not None and function in script.ancestors(test)


def _emptied(script: Script, text: str, target: ast.expr, made: ast.AST) -> bool:
    """Whether anything takes items out, or starts anew; any object's attribute of that name counts."""
    last = text.rsplit(".", maxsplit=1)[-1]
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _TAKES and _ends(call.func.value, last):
            return True
    for assign in script.assigns:
        targets = assign.targets if isinstance(assign, ast.Assign) else [assign.target]
        flat = [part for one in targets for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
        again = assign is not made or _is_made_later(script, made, text)
        if again and assign.value is not None and any(_ends(part, last) for part in flat):
            return True
        sliced = [part for part in flat if isinstance(part, ast.Subscript) and isinstance(part.slice, ast.Slice)]
        if any(_ends(part.value, last) for part in sliced):
            return True
    return any(_deletes(node, last) for node in ast.walk(script.tree) if isinstance(node, ast.Delete))


def _is_made_later(script: Script, made: ast.AST, text: str) -> bool:
    """Whether a method other than the constructor makes an attribute: it starts anew whenever it is called."""
    method = script.function_of(made)
    begins = {"__init__", "__new__", "__post_init__"}
    return text.startswith("self.") and method is not None and getattr(method, "name", "") not in begins


def _deletes(node: ast.Delete, last: str) -> bool:
    return any(_ends(part.value if isinstance(part, ast.Subscript) else part, last) for part in node.targets)


def _ends(expr: ast.expr, last: str) -> bool:
    return (isinstance(expr, ast.Attribute) and expr.attr == last) or (isinstance(expr, ast.Name) and expr.id == last)


def _draws(script: Script, text: str) -> Iterator[ast.Call]:
    """Calls that draw items at random, or random indices of them."""
    for call in script.calls:
        if not isinstance(call.func, ast.Attribute | ast.Name):
            continue
        leaf = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
        if leaf not in _PICKS or not any(_mentions(argument, text) for argument in call.args):
            continue
        name = script.qualified(call.func) or ""
        if name.startswith(("random.", "numpy.random.", "torch.rand")) or "rng" in dotted(call.func):
            yield call


def _mentions(expr: ast.expr, text: str) -> bool:
    return any(isinstance(node, (ast.Name, ast.Attribute)) and dotted(node) == text for node in ast.walk(expr))


def parts(script: Script, put: ast.AST) -> tuple[ast.expr, ...] | None:
    """The parts of a transition that is put in: of a tuple, a list, or a named tuple or object; ``None`` for others."""
    if isinstance(put, (ast.Assign, ast.AnnAssign)):
        item = put.value
    elif isinstance(put, ast.Call) and put.args:
        item = put.args[-1]
    else:
        return None
    item = script.definition(item) if item is not None else None
    match item:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) if len(elements) >= _LEAST_PARTS:
            return tuple(elements)
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name(id="self"))):
            given = (*item.args, *(keyword.value for keyword in item.keywords))
            starred = any(isinstance(argument, ast.Starred) for argument in given)
            return given if len(given) >= _LEAST_PARTS or starred else None
        case ast.Dict(values=values) if len(values) >= _LEAST_PARTS:
            return tuple(values)
        case ast.Name() if _is_parameter(script, item):
            return ()
    return None


def _is_parameter(script: Script, name: ast.Name) -> bool:
    function = script.function_of(name)
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    given = function.args
    return name.id in {
        argument.arg for argument in (*given.args, *given.kwonlyargs, given.vararg) if argument is not None
    }


def store_calls(script: Script) -> Iterator[tuple[ast.Call, str]]:
    """Calls that put a transition into a replay memory, by its name or its class, and the text of what it is called."""
    containers = {memory.text for memory in memories(script) if memory.kind != "dict"}
    for call in script.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr in PUTS:
            text = dotted(call.func.value)
            if text and (MEMORY.search(text) or _SHORT.search(text) or text in containers):
                yield call, text


def stored_rows(script: Script, target: ast.expr) -> int | None:
    """The capacity of the store that a variable names: a known deque's, or the first number its maker is given."""
    text = dotted(target)
    for memory in memories(script):
        if memory.text == text:
            return memory.capacity
    made = script.definition(target)
    if not isinstance(made, ast.Call):
        return None
    for keyword in made.keywords:
        if keyword.arg and CAPACITY.search(keyword.arg):
            return number(script, keyword.value)
    name = script.called(made)
    first = made.args[0] if made.args else None
    value = known(script, first) if first is not None and name and STORE_CLASS.search(name.leaf) else UNKNOWN
    return value if isinstance(value, int) and not isinstance(value, bool) else None
